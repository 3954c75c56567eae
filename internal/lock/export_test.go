package lock

// Split cuts a path before its last name.
var Split = split
