package dialect

// Vertex shares its capacity between all customers, or meters a model by the
// minute; a refusal often has no details beyond the metric's name.
var Vertex = &Dialect{
	Name:       "vertex",
	Names:      []string{"vertex-ai", "vertexai"},
	Hosts:      []string{"aiplatform.googleapis.com", "*-aiplatform.googleapis.com", "aiplatform.*.rep.googleapis.com"},
	Read:       reader{}.read,
	API:        GeminiAPI,
	Tells:      "nothing; a metric's name in a refusal's body",
	Metering:   Metering{PerModel: true},
	Credential: googleCredential,
	KeyHeader:  googleKeyHeader,
}
