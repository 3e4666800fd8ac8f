package images

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"belljar.dev/internal/printable"
)

// Bounds of an image's description.
const (
	maxDocument = 4 << 20 // bytes of an index, a manifest or a configuration
	maxLayers   = 256
	maxNesting  = 4 // depth of nested indexes
	maxListed   = 4096
)

// blobs are the files of an image that is not unpacked, by their names. The caller must
// close the file that open returns.
type blobs interface {
	open(name string) (file io.ReadCloser, size int64, err error)
}

// descriptor, index, manifest and config are those parts of the OCI image
// specification's documents that matter here; docker's own forms have the same
// fields.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations"`
	Platform    *struct {
		Architecture string `json:"architecture"`
		OS           string `json:"os"`
	} `json:"platform"`
}

type index struct {
	Manifests []descriptor `json:"manifests"`
}

type manifest struct {
	Config descriptor   `json:"config"`
	Layers []descriptor `json:"layers"`
}

type config struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
	Config       struct {
		Env        []string
		User       string
		WorkingDir string
	} `json:"config"`
	RootFS struct {
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

// dockerArchive is an entry of the manifest.json of `docker save`.
type dockerArchive struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// plan is what an image consists of.
type plan struct {
	digest  string
	layers  []part
	diffs   []string // digests of the layers without their compression
	runtime Runtime
}

// part is one layer.
type part struct {
	file   string // name of the file in blobs
	digest string // digest of the file; empty if only the uncompressed layer has a digest
	size   int64
}

func isIndex(mediaType string) bool {
	return mediaType == "application/vnd.oci.image.index.v1+json" || mediaType == "application/vnd.docker.distribution.manifest.list.v2+json"
}

// isLayer reports whether a media type is that of a layer, with any compression.
func isLayer(mediaType string) bool {
	switch mediaType {
	case "application/vnd.docker.image.rootfs.diff.tar.gzip", "application/vnd.docker.image.rootfs.diff.tar", "application/vnd.docker.image.rootfs.diff.tar.zstd":
		return true
	}
	base, _, _ := strings.Cut(mediaType, "+")
	return base == "application/vnd.oci.image.layer.v1.tar" || base == "application/vnd.oci.image.layer.nondistributable.v1.tar"
}

// describe reads an image's documents: those of an OCI layout, or otherwise those of
// `docker save`. ref chooses one of several images.
func describe(ctx context.Context, b blobs, ref string) (*plan, error) {
	text, err := document(ctx, b, descriptor{Size: -1}, "index.json")
	if err == nil {
		var idx index
		if err := json.Unmarshal(text, &idx); err != nil {
			return nil, fmt.Errorf("index.json: %w", err)
		}
		m, err := choose(ctx, b, idx, ref, 0)
		if err != nil {
			return nil, fmt.Errorf("index.json: %w", err)
		}
		return fromManifest(ctx, b, m)
	}
	text, saveErr := document(ctx, b, descriptor{Size: -1}, "manifest.json")
	if saveErr != nil {
		return nil, errors.Join(err, saveErr)
	}
	return fromDocker(ctx, b, text, ref)
}

// shown returns a text of an image's maker as a message shows it: as one line, cut to a
// length that leaves the message readable.
func shown(text string) string { return printable.Line(text, 200) }

// list is shown for several texts.
func list(texts []string) string { return printable.Line(strings.Join(texts, ", "), 500) }

// blobName returns the name of the file in which a layout keeps the blob with a digest.
func blobName(digest string) (string, error) {
	dir, err := digestDir(digest)
	if err != nil {
		return "", err
	}
	return "blobs/" + strings.Replace(dir, "-", "/", 1), nil
}

// blob returns the text of a small document, and checks its size and digest.
func blob(ctx context.Context, b blobs, d descriptor) ([]byte, error) {
	name, err := blobName(d.Digest)
	if err != nil {
		return nil, err
	}
	return document(ctx, b, d, name)
}

// document returns the text of a small file. It checks the digest and the size that d
// states, if any.
func document(ctx context.Context, b blobs, d descriptor, name string) ([]byte, error) {
	f, size, err := b.open(name)
	name = shown(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	defer f.Close()
	if d.Size >= 0 && d.Size != size {
		return nil, fmt.Errorf("%s: it has %d bytes, but the image states %d", name, size, d.Size)
	}
	m := newMeter(ctx, f)
	text, err := readBounded(m, maxDocument)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if got := m.digest(); d.Digest != "" && got != d.Digest {
		return nil, fmt.Errorf("%s: its digest is %s, but the image states %s", name, got, d.Digest)
	}
	return text, nil
}

// choose returns the one manifest of an index that ref means.
func choose(ctx context.Context, b blobs, idx index, ref string, depth int) (descriptor, error) {
	if depth > maxNesting || len(idx.Manifests) > maxListed {
		return descriptor{}, fmt.Errorf("over %d nested indexes, or over %d images", maxNesting, maxListed)
	}
	var fits []descriptor
	var refs, platforms []string
	for _, d := range idx.Manifests {
		name := d.Annotations["org.opencontainers.image.ref.name"]
		if p := d.Platform; p != nil && (p.OS != "linux" || p.Architecture != runtime.GOARCH) {
			platforms = append(platforms, p.OS+"/"+p.Architecture)
			continue
		}
		if depth == 0 && ref != "" && ref != name && ref != d.Annotations["io.containerd.image.name"] {
			refs = append(refs, name)
			continue
		}
		if !slices.ContainsFunc(fits, func(f descriptor) bool { return f.Digest == d.Digest }) {
			fits = append(fits, d)
			refs = append(refs, name)
		}
	}
	switch {
	case len(fits) > 1 && (depth > 0 || ref != ""):
		return descriptor{}, fmt.Errorf("it contains %d images for linux/%s that --ref does not distinguish; save one of them alone", len(fits), runtime.GOARCH)
	case len(fits) > 1:
		return descriptor{}, fmt.Errorf("it contains %d images (%s); choose one with --ref", len(fits), list(refs))
	case len(fits) == 0 && ref != "" && len(refs) > 0:
		return descriptor{}, fmt.Errorf("no image in it is called %q, only %s", ref, list(refs))
	case len(fits) == 0 && len(platforms) == 0:
		return descriptor{}, errors.New("it contains no image")
	case len(fits) == 0:
		return descriptor{}, fmt.Errorf("no image in it is for linux/%s, only for %s", runtime.GOARCH, list(platforms))
	case !isIndex(fits[0].MediaType):
		return fits[0], nil
	}
	text, err := blob(ctx, b, fits[0])
	if err != nil {
		return descriptor{}, err
	}
	var inner index
	if err := json.Unmarshal(text, &inner); err != nil {
		return descriptor{}, fmt.Errorf("%s: %w", fits[0].Digest, err)
	}
	return choose(ctx, b, inner, ref, depth+1)
}

// fromManifest returns the plan for a manifest.
func fromManifest(ctx context.Context, b blobs, d descriptor) (*plan, error) {
	text, err := blob(ctx, b, d)
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	var m manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("manifest %s: %w", d.Digest, err)
	}
	p := &plan{digest: d.Digest}
	for i, l := range m.Layers {
		if !isLayer(l.MediaType) {
			return nil, fmt.Errorf("layer %d is of the type %.100q, which is not a file system's", i+1, l.MediaType)
		}
		name, err := blobName(l.Digest)
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", i+1, err)
		}
		p.layers = append(p.layers, part{name, l.Digest, l.Size})
	}
	if text, err = blob(ctx, b, m.Config); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return p, p.configure(text)
}

// fromDocker returns the plan for an image of `docker save`. Only its configuration has
// digests of the layers.
func fromDocker(ctx context.Context, b blobs, text []byte, ref string) (*plan, error) {
	var all []dockerArchive
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("manifest.json: %w", err)
	}
	var names []string
	fits := slices.DeleteFunc(all, func(a dockerArchive) bool {
		names = append(names, a.RepoTags...)
		return ref != "" && !slices.Contains(a.RepoTags, ref)
	})
	if len(fits) != 1 {
		return nil, fmt.Errorf("manifest.json: %d images in it fit (%s); choose one with --ref", len(fits), list(names))
	}
	text, err := document(ctx, b, descriptor{Size: -1}, fits[0].Config)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	sum := sha256.Sum256(text)
	p := &plan{digest: "sha256:" + hex.EncodeToString(sum[:])}
	for _, l := range fits[0].Layers {
		p.layers = append(p.layers, part{file: l, size: -1})
	}
	if err := p.configure(text); err != nil {
		return nil, err
	}
	if len(p.diffs) == 0 && len(p.layers) > 0 {
		return nil, errors.New("configuration: it names no digests of the layers")
	}
	// The name of the configuration is its digest, or ends in it before ".json".
	if want := strings.TrimSuffix(fits[0].Config[strings.LastIndex(fits[0].Config, "/")+1:], ".json"); "sha256:"+want != p.digest {
		return nil, fmt.Errorf("configuration %.100q: its digest is %s, and its name states another", fits[0].Config, p.digest)
	}
	return p, nil
}

// configure copies an image's configuration into the plan.
func (p *plan) configure(text []byte) error {
	var c config
	if err := json.Unmarshal(text, &c); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	if c.OS != "" && c.OS != "linux" || c.Architecture != "" && c.Architecture != runtime.GOARCH {
		return fmt.Errorf("the image is for %s, and this host is linux/%s", shown(c.OS+"/"+c.Architecture), runtime.GOARCH)
	}
	switch n := len(c.RootFS.DiffIDs); {
	case len(p.layers) == 0 || len(p.layers) > maxLayers:
		return fmt.Errorf("the image has %d layers, 1 to %d are allowed", len(p.layers), maxLayers)
	case n > 0 && n != len(p.layers):
		return fmt.Errorf("configuration: it has digests of %d layers, and there are %d", n, len(p.layers))
	}
	for i, d := range c.RootFS.DiffIDs {
		if _, err := digestDir(d); err != nil {
			return fmt.Errorf("configuration: layer %d: %w", i+1, err)
		}
	}
	p.diffs = c.RootFS.DiffIDs
	p.runtime = Runtime{Env: c.Config.Env, User: c.Config.User, Dir: c.Config.WorkingDir}
	if err := p.runtime.check(); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	return nil
}
