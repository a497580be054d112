package streams

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A backup's file is a tar of the data directory's files below dataPrefix, between a first entry that says what this is and two last ones: the
// manifest, which has the checksum of every file, and the checksum of the manifest. Where the last ones are missing the file is cut.
const (
	backupFormat   = 1
	backupHead     = "siding-backup"
	dataPrefix     = "data/"
	manifestFile   = "manifest.json"
	manifestSum    = "manifest.sha256"
	maxManifest    = 64 << 20
	maxBackupFiles = 1 << 20
)

// Manifest says what a backup holds.
type Manifest struct {
	Format     int            `json:"backup_format"`
	DataFormat int            `json:"data_format"`
	TakenAt    time.Time      `json:"taken_at"`
	Held       time.Duration  `json:"held_nanoseconds"`
	Bytes      int64          `json:"bytes"`
	Streams    []BackupStream `json:"streams"`
	Functions  []string       `json:"functions"`
	Files      []BackupFile   `json:"files"`
}

// BackupFile is one file of a backup.
type BackupFile struct {
	Name   string `json:"name"` // in the data directory, with slashes
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Write writes the backup as one file and returns what it wrote down about it.
func (b *Backup) Write(w io.Writer) (Manifest, error) {
	m := Manifest{
		Format: backupFormat, DataFormat: formatVersion, TakenAt: b.TakenAt, Held: b.Held, Streams: b.Streams, Functions: b.Functions,
		Files: make([]BackupFile, 0, len(b.files)),
	}
	out := tar.NewWriter(w)
	if err := writeEntry(out, backupHead, b.TakenAt, fmt.Appendf(nil, "%d\n", backupFormat)); err != nil {
		return m, err
	}
	for _, name := range b.files {
		file, err := b.writeFile(out, name)
		if err != nil {
			return m, err
		}
		m.Files = append(m.Files, file)
		m.Bytes += file.Size
	}
	manifest, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return m, err
	}
	sum := sha256.Sum256(manifest)
	err = writeEntry(out, manifestFile, b.TakenAt, manifest)
	if err == nil {
		err = writeEntry(out, manifestSum, b.TakenAt, []byte(hex.EncodeToString(sum[:])+"\n"))
	}
	if err == nil {
		err = out.Close()
	}
	return m, err
}

func writeEntry(out *tar.Writer, name string, at time.Time, content []byte) error {
	err := out.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content)), ModTime: at.Truncate(time.Second), Format: tar.FormatPAX})
	if err == nil {
		_, err = out.Write(content)
	}
	return err
}

func (b *Backup) writeFile(out *tar.Writer, name string) (BackupFile, error) {
	in, err := os.Open(filepath.Join(b.dir, filepath.FromSlash(name)))
	if err != nil {
		return BackupFile{}, err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return BackupFile{}, err
	}
	header := &tar.Header{Name: dataPrefix + name, Mode: 0o600, Size: info.Size(), ModTime: b.TakenAt.Truncate(time.Second), Format: tar.FormatPAX}
	if err := out.WriteHeader(header); err != nil {
		return BackupFile{}, err
	}
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(out, sum), in); err != nil {
		return BackupFile{}, err
	}
	return BackupFile{Name: name, Size: info.Size(), SHA256: hex.EncodeToString(sum.Sum(nil))}, nil
}

// errCut is a backup whose end is missing.
var errCut = errors.New("cut: its end is missing")

// CheckBackup reads a whole backup and compares every file with its checksum. create is called for each file, in order, and gets its
// content. The error says in which way r is no intact backup that this program can restore.
func CheckBackup(r io.Reader, create func(name string) (io.WriteCloser, error)) (Manifest, error) {
	in := tar.NewReader(r)
	read := backupReader{in: in, create: create}
	head, err := read.next()
	if err != nil || head.Name != backupHead {
		return Manifest{}, errors.New("no backup of siding")
	}
	version, err := io.ReadAll(io.LimitReader(in, 16))
	if err != nil {
		return Manifest{}, cutShort(err)
	}
	if text := strings.TrimSpace(string(version)); text != fmt.Sprint(backupFormat) {
		return Manifest{}, fmt.Errorf("format %q, this program reads %d", text, backupFormat)
	}
	for {
		header, err := read.next()
		if err != nil {
			return Manifest{}, err
		}
		if header.Name == manifestFile {
			return read.manifest(header.Size)
		}
		if err := read.file(header); err != nil {
			return Manifest{}, err
		}
	}
}

// backupReader reads the entries of a backup.
type backupReader struct {
	in     *tar.Reader
	create func(name string) (io.WriteCloser, error)
	files  []BackupFile
}

func (r *backupReader) next() (*tar.Header, error) {
	header, err := r.in.Next()
	switch {
	case err != nil:
		return nil, cutShort(err)
	case header.Typeflag != tar.TypeReg:
		return nil, fmt.Errorf("entry %q: not a file", header.Name)
	}
	return header, nil
}

// cutShort turns the end of the file in a wrong place into errCut, and leaves other errors.
func cutShort(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errCut
	}
	if _, ours := errors.AsType[*fs.PathError](err); ours { // of the disk that is written to, or of the file itself
		return err
	}
	return fmt.Errorf("damaged: %w", err)
}

func (r *backupReader) file(header *tar.Header) error {
	name, ok := strings.CutPrefix(header.Name, dataPrefix)
	if !ok || !restorable(name) {
		return fmt.Errorf("damaged: entry %q does not belong into a backup", header.Name)
	}
	if len(r.files) == maxBackupFiles {
		return fmt.Errorf("damaged: more than %d files", maxBackupFiles)
	}
	out, err := r.create(name)
	if err != nil {
		return err
	}
	sum := sha256.New()
	size, err := io.Copy(io.MultiWriter(sum, out), r.in)
	if err := errors.Join(err, out.Close()); err != nil {
		return cutShort(err)
	}
	r.files = append(r.files, BackupFile{Name: name, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil))})
	return nil
}

// restorable reports whether a data directory can hold a file of this name.
func restorable(name string) bool {
	if !filepath.IsLocal(filepath.FromSlash(name)) || strings.Contains(name, `\`) {
		return false
	}
	return name == formatFile || strings.HasPrefix(name, ledgerDir+"/") || strings.HasPrefix(name, storeDir+"/")
}

// manifest reads the last two entries and compares them with what was read before.
func (r *backupReader) manifest(size int64) (m Manifest, err error) {
	if size > maxManifest {
		return m, fmt.Errorf("damaged: a manifest of %d bytes", size)
	}
	content, err := io.ReadAll(r.in)
	if err != nil {
		return m, cutShort(err)
	}
	header, err := r.next()
	if err != nil {
		return m, err
	}
	want, err := io.ReadAll(io.LimitReader(r.in, 128))
	if err != nil {
		return m, cutShort(err)
	}
	sum := sha256.Sum256(content)
	if header.Name != manifestSum || string(bytes.TrimSpace(want)) != hex.EncodeToString(sum[:]) {
		return m, errors.New("damaged: the manifest's checksum does not match")
	}
	if err := json.Unmarshal(content, &m); err != nil {
		return m, fmt.Errorf("damaged: manifest: %w", err)
	}
	if m.DataFormat > formatVersion {
		return m, fmt.Errorf("data of format %d, the newest that this program reads is %d", m.DataFormat, formatVersion)
	}
	if len(m.Files) != len(r.files) {
		return m, fmt.Errorf("damaged: %d files, the manifest names %d", len(r.files), len(m.Files))
	}
	for i, want := range m.Files {
		if r.files[i] != want {
			return m, fmt.Errorf("damaged: file %s: the checksum does not match", r.files[i].Name)
		}
	}
	return m, nil
}
