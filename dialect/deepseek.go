package dialect

// DeepSeek limits how many requests run at once, per account and model, and
// reports nothing: no clock helps, only an answer that ends.
var DeepSeek = &Dialect{
	Name:     "deepseek",
	BaseURL:  "https://api.deepseek.com",
	Hosts:    []string{"api.deepseek.com"},
	Read:     reader{concurrent: true}.read,
	Tells:    "nothing; too many at once when it refuses",
	Metering: Metering{PerModel: true},
}
