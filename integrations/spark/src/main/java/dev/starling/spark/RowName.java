package dev.starling.spark;

/** The name of the current row for messages. Confined to one thread. */
final class RowName {
    private final String what;
    private final int partition;
    /** Number of the row in the partition, from 0. */
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
