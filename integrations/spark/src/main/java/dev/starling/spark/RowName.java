package dev.starling.spark;

/** Names the row that is being read, in messages. Confined to one thread. */
final class RowName {
    private final String what;
    private final int partition;
    /** In the partition, from 0. */
    long row;

    RowName(int partition) {
        this("row ", partition);
    }

    RowName(String what, int partition) {
        this.what = what;
        this.partition = partition;
    }

    @Override
    public String toString() {
        return what + row + " of partition " + partition;
    }
}
