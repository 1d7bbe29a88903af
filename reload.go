package paceline

import "time"

// SetProviders replaces the declared entries. Requests that wait take the new
// limits when they ask next; those under way end as they began. Where anything
// is wrong it changes nothing, and the error says all that is.
func (t *Transport) SetProviders(ps []Provider) error {
	t.once.Do(t.init)
	es, err := complete(ps)
	if err != nil {
		return err
	}
	t.entries.Store(es)
	for key := range t.home.book.Callers() {
		t.home.gate.Wake(key)
	}
	return nil
}

// follow has a waiting call take the limits of its entry that hold now. One
// whose entry is gone goes on as it began.
func (c *call) follow() {
	es := c.transport.entries.Load()
	if es == c.entries {
		return
	}
	c.entries = es
	e := es.find(c.entry.Name)
	if e == nil {
		return
	}
	c.entry = e
	if c.any && len(e.keys) > 0 {
		c.choices = c.candidates(time.Now())
	}
	c.comply()
}
