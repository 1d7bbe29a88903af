package dialect

// VLLM queues what it is asked and refuses nothing by itself; what stands in front
// of it may.
var VLLM = &Dialect{
	Name:  "vllm",
	Read:  reader{}.read,
	Tells: "nothing",
	Kind:  kindBy([]string{"/score", "/pooling", "/classify"}, []string{"/version", "/load"}),
}
