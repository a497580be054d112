package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// Backup is what a backup holds.
type Backup struct {
	TakenAt time.Time `json:"taken_at"`
	// Held is how long the functions could store nothing while it was taken.
	Held       string         `json:"held"`
	Bytes      int64          `json:"bytes"`
	DataFormat int            `json:"data_format"`
	Streams    []BackupStream `json:"streams"`
	// Functions that the node knew, hosted or not.
	Functions []string `json:"functions"`
}

// BackupStream is one stream as it was when the backup began; of what is
// accepted meanwhile it may hold more.
type BackupStream struct {
	Name         string `json:"name"`
	Messages     uint64 `json:"messages"`
	LastSequence uint64 `json:"last_sequence"`
}

// backupSilence is how long a node may send nothing of a backup once it has
// begun to send.
const backupSilence = time.Minute

// WriteBackup takes a backup of the node and writes its file to w. The node
// copies everything before it sends anything, which takes as long as its disk
// does. After an error what w got is of no use.
func (c *Client) WriteBackup(ctx context.Context, w io.Writer) error {
	bounded, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := c.do(bounded, http.MethodGet, "/api/v1/backup", "", nil)
	if err != nil {
		return c.failure(ctx, err)
	}
	defer resp.Body.Close()
	if err := problemIn(resp); err != nil {
		return err
	}
	silence := time.AfterFunc(backupSilence, cancel)
	defer silence.Stop()
	buf := make([]byte, 256<<10)
	for {
		n, err := resp.Body.Read(buf)
		silence.Reset(backupSilence)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return c.failure(ctx, err)
		}
	}
}
