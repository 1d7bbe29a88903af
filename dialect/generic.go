package dialect

// Generic reads what providers nobody described mean by the usual words. Names
// alone do not tell a window, and nothing is assumed about how a bucket fills.
var Generic = &Dialect{
	Name:    "generic",
	Names:   []string{"ietf"},
	Reports: true,
	Read:    reader{}.read,
	Tells:   "what everybody means by the same words: `x-ratelimit-*` and its relatives, IETF fields, Google's details",
}
