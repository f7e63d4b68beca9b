package blockdev

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/csidoctor/csidoctor/internal/nodereport"
)

// version is a kernel's, {6, 1}; the zero one is not known.
type version struct{ major, minor int }

func (v version) before(o version) bool {
	return v.major < o.major || v.major == o.major && v.minor < o.minor
}

var (
	releaseForm = regexp.MustCompile(`^(\d{1,4})\.(\d{1,4})\b`)
	// Red Hat's, SUSE's and their kin's kernels keep an old number and take features of newer ones in: it tells nothing.
	backported = regexp.MustCompile(`\.(el|oe|an|al|tl|ky|uel)\d|-default$`)
)

// release reads uname -r.
func release(text string) version {
	m := releaseForm.FindStringSubmatch(text)
	if m == nil || backported.MatchString(text) {
		return version{}
	}
	major, _ := strconv.Atoi(m[1]) // digits only, and few of them
	minor, _ := strconv.Atoi(m[2])
	return version{major, minor}
}

// feature is one bit of a superblock's feature words, with the first kernel that mounts what has it; no version: as old as the
// filesystem, or harmless to a kernel that does not know it.
type feature struct {
	bit   uint
	name  string
	since version
}

// features are the words of one filesystem, by what a kernel does that does not know a bit: mounts it all the same, refuses,
// refuses to write. Names as mkfs and its kin say them.
type features struct{ compat, incompat, ro []feature }

var extFeatures = features{
	compat: []feature{{0, "dir_prealloc", version{}}, {1, "imagic_inodes", version{}}, {2, "has_journal", version{}}, {3, "ext_attr", version{}},
		{4, "resize_inode", version{}}, {5, "dir_index", version{}}, {6, "lazy_bg", version{}}, {8, "snapshot_bitmap", version{}},
		{9, "sparse_super2", version{}}, {10, "fast_commit", version{}}, {11, "stable_inodes", version{}}, {12, "orphan_file", version{}}},
	incompat: []feature{{0, "compression", never}, {1, "filetype", version{}}, {2, "needs_recovery", version{}}, {3, "journal_dev", version{}},
		{4, "meta_bg", version{}}, {6, "extent", version{2, 6}}, {7, "64bit", version{2, 6}}, {8, "mmp", version{3, 0}}, {9, "flex_bg", version{2, 6}},
		{10, "ea_inode", version{4, 13}}, {12, "dirdata", never}, {13, "metadata_csum_seed", version{4, 4}}, {14, "large_dir", version{4, 13}},
		{15, "inline_data", version{3, 8}}, {16, "encrypt", version{4, 1}}, {17, "casefold", version{5, 2}}},
	ro: []feature{{0, "sparse_super", version{}}, {1, "large_file", version{}}, {2, "btree_dir", version{}}, {3, "huge_file", version{2, 6}},
		{4, "uninit_bg", version{2, 6}}, {5, "dir_nlink", version{2, 6}}, {6, "extra_isize", version{2, 6}}, {7, "has_snapshot", never},
		{8, "quota", version{3, 6}}, {9, "bigalloc", version{3, 2}}, {10, "metadata_csum", version{3, 5}}, {11, "replica", never},
		{12, "read-only", version{4, 0}}, {13, "project", version{4, 5}}, {14, "shared_blocks", never}, {15, "verity", version{5, 4}},
		{16, "orphan_present", version{5, 15}}},
}

// never: no kernel of kernel.org mounts it.
var never = version{1 << 16, 0}

var xfsFeatures = features{
	incompat: []feature{{0, "ftype", version{3, 10}}, {1, "sparse", version{4, 2}}, {2, "meta_uuid", version{4, 3}}, {3, "bigtime", version{5, 10}},
		{4, "needsrepair", version{5, 11}}, {5, "nrext64", version{5, 19}}, {6, "exchange", version{6, 10}}, {7, "parent", version{6, 10}},
		{8, "metadir", version{6, 13}}, {9, "zoned", version{6, 15}}, {10, "zone_gaps", version{6, 15}}},
	ro: []feature{{0, "finobt", version{3, 16}}, {1, "rmapbt", version{4, 8}}, {2, "reflink", version{4, 9}}, {3, "inobtcount", version{5, 10}}},
}

var btrfsFeatures = features{
	incompat: []feature{{0, "mixed_backref", version{}}, {1, "default_subvol", version{}}, {2, "mixed_groups", version{}}, {3, "compress_lzo", version{}},
		{4, "compress_zstd", version{4, 14}}, {5, "big_metadata", version{3, 4}}, {6, "extended_iref", version{3, 7}}, {7, "raid56", version{3, 9}},
		{8, "skinny_metadata", version{3, 10}}, {9, "no_holes", version{3, 14}}, {10, "metadata_uuid", version{5, 0}}, {11, "raid1c34", version{5, 5}},
		{12, "zoned", version{5, 12}}, {13, "extent_tree_v2", never}, {14, "raid_stripe_tree", version{6, 7}}, {16, "simple_quota", version{6, 7}}},
	ro: []feature{{0, "free_space_tree", version{4, 5}}, {1, "free_space_tree_valid", version{4, 9}}, {2, "verity", version{5, 15}},
		{3, "block_group_tree", version{6, 1}}},
}

// features writes the names of all bits that are set, and which of them the running kernel is too old for. What no name
// exists for here is called as e2fsprogs does, by word and bit, and is not held against the kernel.
func (d *image) features(s *nodereport.Signature, f features, compat, incompat, ro uint32) {
	for _, w := range []struct {
		letter string
		known  []feature
		bits   uint32
	}{{"C", f.compat, compat}, {"I", f.incompat, incompat}, {"R", f.ro, ro}} {
		for _, k := range w.known {
			if w.bits&(1<<k.bit) == 0 {
				continue
			}
			w.bits &^= 1 << k.bit
			s.Features = append(s.Features, k.name)
			if d.kernel != (version{}) && d.kernel.before(k.since) {
				s.Unsupported = append(s.Unsupported, k.name)
			}
		}
		for bit := range 32 {
			if w.bits&(1<<bit) != 0 {
				s.Features = append(s.Features, fmt.Sprintf("FEATURE_%s%d", w.letter, bit))
			}
		}
	}
}
