# Runs one throwaway Postgres server for as long as a process uses it: holds the
# named pipe "users" open for writing. Its directory is the working directory;
# it says "ready" on standard output once the server accepts connections.
#
# Arguments: where initdb and postgres are; the process id of the test run, ""
# for a server that must stop with its last user; the file that points the run
# to this server, or ""; then arguments for postgres.
set -u
# Ends by itself only, or a signal to the process group would leave a server.
trap '' HUP INT TERM PIPE
bin=$1 run=$2 pointer=$3
shift 3
dir=$PWD
server=

# The first descriptor never blocks; the second one then has a writer. Only the
# second, which can meet the end of the pipe, stays.
exec 3<>users 4<users 3>&-

run_lives() {
	[ -n "$run" ] || return 1
	if [ -d /proc/self ]; then
		[ -d "/proc/$run" ]
	else
		ps -p "$run" >/dev/null 2>&1
	fi
}

finish() {
	exec >&2
	# From here on nobody finds the pipe. Who found it before is served.
	mv users closed
	if [ -n "$pointer" ]; then
		case $(cat "$pointer") in
		"$dir" | "") rm -f "$pointer" ;; # empty: our starter was killed
		esac
	fi
	cat <&4 >/dev/null
	# The file is there while the server is: the id is not that of a stranger. After
	# a restart the server is none of our children.
	now=$(head -n 1 data/postmaster.pid)
	if [ -n "$server" ] && [ "$now" = "$server" ]; then
		kill -QUIT "$server"
		wait "$server"
	elif [ -n "$now" ] && [ "$now" = "$(cat restarted)" ]; then
		kill -QUIT "$now"
		tries=0
		while [ -e data/postmaster.pid ] && [ "$tries" -lt 200 ]; do
			tries=$((tries + 1))
			sleep 0.05
		done
	fi
	cd /
	rm -rf "$dir"
	rmdir "${dir%/*}"
	exit "$1"
}

"$bin/initdb" -D data -U outbox -E UTF8 --no-locale --no-sync \
	--auth=scram-sha-256 --pwfile=password >&2 4<&- || finish 1
rm -f password

"$bin/postgres" -D data "$@" </dev/null >&2 4<&- &
server=$!
tries=0
until grep -q '^ready' data/postmaster.pid 2>/dev/null; do
	if ! kill -0 "$server"; then
		server=
		finish 1
	fi
	tries=$((tries + 1))
	if [ "$tries" -gt 1200 ]; then
		kill -QUIT "$server"
		wait "$server"
		server=
		finish 1
	fi
	sleep 0.05
done
echo ready
exec >&2

# Stays three seconds after the last user, for the next package of the run.
# Every user writes a byte when it comes. cat ends when no user is left.
idle=0
while [ "$idle" -lt 30 ]; do
	if [ -n "$(cat <&4)" ]; then
		idle=0
	fi
	run_lives || break
	idle=$((idle + 1))
	sleep 0.1
done
finish 0
