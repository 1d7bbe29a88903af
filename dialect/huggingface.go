package dialect

// HuggingFace's hub has a fixed window of five minutes under the IETF names; its
// inference has credits of a month, and says why it refuses in a header.
var HuggingFace = &Dialect{
	Name:  "huggingface",
	Names: []string{"hugging-face", "hf"},
	Hosts: []string{
		"huggingface.co", "router.huggingface.co", "api-inference.huggingface.co", ".endpoints.huggingface.cloud",
	},
	Reports: true,
	Read:    reader{fixed: true}.read,
	Demand:  estimate,
}
