package dialect

// Gemini says everything in the body of a refusal (google.go) and nothing on
// success: which quota was violated, and how long to wait. Days turn at
// midnight in the Pacific time zone.
var Gemini = &Dialect{
	Name:   "gemini",
	Names:  []string{"google", "google-apis", "googleapis"},
	Hosts:  []string{"generativelanguage.googleapis.com", "cloudcode-pa.googleapis.com"},
	Read:   reader{}.read,
	Demand: estimate,
}
