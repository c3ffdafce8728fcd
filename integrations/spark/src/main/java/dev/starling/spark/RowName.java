package dev.starling.spark;

/** Names the row that is being read, in messages. Confined to one thread. */
final class RowName {
    private final int partition;
    /** In the partition, from 0. */
    long row;

    RowName(int partition) {
        this.partition = partition;
    }

    @Override
    public String toString() {
        return "row " + row + " of partition " + partition;
    }
}
