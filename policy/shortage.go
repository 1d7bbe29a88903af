package policy

// A Shortage is an observed budget in which too little is left.
type Shortage struct {
	Unit      string `json:"unit"`
	Window    string `json:"window,omitempty"`
	Remaining int64  `json:"remaining"`
	Limit     int64  `json:"limit,omitempty"`
	Floor     int64  `json:"floor,omitempty"`
	Anyway    bool   `json:"anyway"`
}
