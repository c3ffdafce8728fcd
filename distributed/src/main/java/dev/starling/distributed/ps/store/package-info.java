/** What a server keeps on its disk: the journal, snapshots, rows of tables, and the files of rows in checkpoints. */
package dev.starling.distributed.ps.store;
