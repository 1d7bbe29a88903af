package clients

import "flag"

// setParallel lets as many tests run at once as there are, unless the command
// line says how many.
func setParallel() error {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return nil
	}
	return flag.Set("test.parallel", "64")
}
