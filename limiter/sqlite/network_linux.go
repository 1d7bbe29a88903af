package sqlite

import "golang.org/x/sys/unix"

// network is what network file system a file is on; empty for any other.
func network(path string) string {
	var s unix.Statfs_t
	if unix.Statfs(path, &s) != nil {
		return ""
	}
	return networks[uint32(s.Type)]
}

// The types of statfs(2), whose numbers have 32 bits.
var networks = map[uint32]string{
	unix.NFS_SUPER_MAGIC:  "NFS",
	unix.SMB_SUPER_MAGIC:  "SMB",
	unix.SMB2_SUPER_MAGIC: "SMB",
	unix.CIFS_SUPER_MAGIC: "SMB",
	unix.AFS_SUPER_MAGIC:  "AFS",
	unix.CODA_SUPER_MAGIC: "Coda",
	unix.CEPH_SUPER_MAGIC: "Ceph",
	0x0BD00BD0:            "Lustre",
	0x47504653:            "GPFS",
}
