package policy

// A Shortage is an observed budget in which too little is left.
type Shortage struct {
	Unit, Window            string
	Remaining, Limit, Floor int64
	Anyway                  bool
}
