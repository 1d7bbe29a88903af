package dialect

// LlamaCpp refuses while it loads a model, and limits nothing.
var LlamaCpp = &Dialect{
	Name:  "llamacpp",
	Names: []string{"llama-cpp", "llama.cpp"},
	Read:  reader{}.read,
	Tells: "nothing",
	Kind:  kindBy([]string{"/completion", "/embedding", "/reranking"}, []string{"/props", "/slots"}),
}
