package explain

import (
	"slices"
	"strings"
)

// Options that mount(8) and the kernel take for every filesystem (mount(8), fs/fs_context.c), and those of the filesystems that
// block drivers make (Documentation/filesystems/ext4, xfs and btrfs of Linux 6.18, and what older kernels took). A no- before
// one is its negation.
var (
	generalOptions = strings.Fields(`rw ro sync async dirsync atime diratime relatime strictatime lazytime dev suid exec user users owner group auto fail defaults
		_netdev bind rbind remount mand iversion silent loud symfollow context fscontext defcontext rootcontext comment`)
	optionsKnown = map[string][]string{
		"ext4": strings.Fields(`acl user_xattr barrier data commit errors journal_checksum journal_async_commit journal_ioprio journal_dev journal_path delalloc discard
			dioread_lock dax max_batch_time min_batch_time init_itable quota usrquota grpquota prjquota usrjquota grpjquota jqfmt mbcache stripe resuid resgid sb load
			recovery block_validity auto_da_alloc minixdf bsddf df grpid bsdgroups sysvgroups debug lazyinit i_version inlinecrypt max_dir_size_kb mb_optimize_scan
			prefetch_block_bitmaps abort test_dummy_encryption debug_want_extra_isize inode_readahead_blks check orlov oldalloc bh nolock warn_on_error data_err`),
		"xfs": strings.Fields(`allocsize attr2 discard grpid bsdgroups sysvgroups filestreams ikeep inode32 inode64 largeio logbufs logbsize logdev recovery align uuid quota
			uquota usrquota uqnoenforce qnoenforce gquota grpquota gqnoenforce pquota prjquota pqnoenforce rtdev sunit swidth swalloc wsync dax barrier max_open_zones lifetime
			max_atomic_write`),
		"btrfs": strings.Fields(`acl autodefrag barrier check_int commit compress compress-force datacow datasum degraded device discard enospc_debug fatal_errors flushoncommit
			fragment inode_cache max_inline metadata_ratio rescan_uuid_tree rescue skip_balance space_cache ssd ssd_spread subvol subvolid thread_pool treelog
			usebackuproot recovery clear_cache user_subvol_rm_allowed`),
	}
)

// strange are the options of a PV that neither its filesystem on a disk nor mount knows: those of shares, of another filesystem,
// or misspelt ones.
func strange(fsType string, options []string) []string {
	own := fsType
	if sameFilesystem[fsType] == "ext" {
		own = "ext4"
	}
	known := optionsKnown[own]
	if known == nil {
		return nil
	}
	var out []string
	for _, o := range options {
		for word := range strings.SplitSeq(o, ",") {
			name, _, _ := strings.Cut(strings.TrimSpace(word), "=")
			positive := strings.TrimPrefix(strings.TrimPrefix(name, "no"), "_")
			takes := func(names []string) bool { return slices.Contains(names, name) || slices.Contains(names, positive) }
			if name != "" && !strings.HasPrefix(name, "x-") && !takes(generalOptions) && !takes(known) && !slices.Contains(out, word) {
				out = append(out, word)
			}
		}
	}
	return out
}
