package dialect

// Bedrock reports nothing but the exception's name, and drops what Claude says.
// Only the words "per day" tell a spent day.
var Bedrock = &Dialect{
	Name:  "bedrock",
	Names: []string{"aws-bedrock", "amazon-bedrock", "aws"},
	Hosts: []string{
		"bedrock-runtime.*.amazonaws.com", "bedrock-runtime-fips.*.amazonaws.com", "bedrock-mantle.*.api.aws",
		"bedrock-runtime.*.amazonaws.com.cn", "bedrock-runtime.*.api.aws",
	},
	Read:     reader{}.read,
	Tells:    "nothing; an exception's name when it refuses",
	Metering: Metering{PerModel: true, Charges: Charging{Output: Reserved, GivesBack: true, CachedFree: true}},
}
