package sqlite

import "fmt"

// Warnings are what whoever runs this should know: that the file lies where
// processes of other machines could open it, too.
func (l *Limiter) Warnings() []string {
	kind := network(l.path)
	if kind == "" {
		return nil
	}
	return []string{fmt.Sprintf("The sqlite limiter's file %s is on a network file system (%s). "+
		"Processes of another machine would count by themselves, so keep it on a local disk.", l.path, kind)}
}
