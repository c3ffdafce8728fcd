package dev.starling.distributed.ps.store;

import dev.starling.distributed.ps.config.ServerException;
import dev.starling.distributed.ps.wire.Plan;
import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import net.openhft.chronicle.map.ChronicleMap;
import net.openhft.chronicle.map.ChronicleMapBuilder;
import net.openhft.chronicle.map.ExternalMapQueryContext;
import net.openhft.chronicle.map.MapEntry;
import net.openhft.chronicle.map.MapSegmentContext;
import org.agrona.collections.Long2LongHashMap;
import org.jspecify.annotations.Nullable;

/**
 * A server's rows of one table, each with the state of the rule: a map in a file, which may be larger than memory, and
 * in front of it, in memory, the rows that changed since the last snapshot.
 *
 * <p><b>Why changed rows are kept apart.</b> A process that dies while it writes into the map leaves a torn row. Rows
 * move into the map only in {@link #spill}, when the journal contains each of them completely; replaying the journal
 * repairs torn rows.
 *
 * <p><b>How a cut works.</b> Each row in the map carries a stamp: the number of the journal's last record at the time
 * it was moved there. At a {@link #cut} all rows are in the map, and a row with a greater stamp is newer than the cut.
 * Another thread then scans the map, segment by segment. Before a row that the scan has not reached is replaced, the
 * replacing thread delivers the old row.
 */
public final class EmbeddingRows implements AutoCloseable {
    private static final long MISSING = -1;
    /** Rows of a table have taken different numbers of steps. */
    private static final int KNOWN_STEPS = 64;
    private static final ByteOrder ORDER = ByteOrder.LITTLE_ENDIAN;
    private static final VarHandle LONG = MethodHandles.byteArrayViewVarHandle(long[].class, ORDER);

    /** Receives the rows of a cut from two threads. A row may arrive twice, with the same contents. */
    interface Cut {
        /** Receives a row: the first {@link #rowBytes} of the array, which the caller reuses. */
        void onRow(long rowKey, byte[] row);
    }

    private final Plan.Table table;
    private final int stride;
    private final Path file;
    private final ChronicleMap<byte[], byte[]> map;
    private final byte[] key = new byte[8];
    private final ByteBuffer keyView = ByteBuffer.wrap(key);
    /** A row, followed by its stamp. */
    private final byte[] value;
    private final ByteBuffer valueBytes;
    private final FloatBuffer valueView;
    private final byte[] replaced;
    private final byte[] scannedValue;
    /** {@code null} between cuts. */
    private volatile @Nullable Cut cut;
    private volatile long cutAt;
    /** Number of segments of the map that were scanned for the cut. */
    private volatile int scanned;

    private final Long2LongHashMap places;
    private final int capacity;
    private long[] changedKeys;
    private float[] changed;
    private int changes;
    /** Number of rows in the map, and of changed rows that are not in it yet. */
    private long rows;

    /** The row that takes a step. */
    private final TrainedWeights stepping;
    private final float[] gradient;

    /**
     * Opens the file, or creates it.
     *
     * @param cacheBytes memory for changed rows; when it is used up, a snapshot is due
     */
    public EmbeddingRows(Plan.Table table, Path file, long cacheBytes) throws IOException {
        this.table = table;
        this.file = file;
        stride = table.stride();
        value = new byte[4 * stride + Long.BYTES];
        replaced = value.clone();
        scannedValue = value.clone();
        valueBytes = ByteBuffer.wrap(value).order(ORDER);
        valueView = valueBytes.asFloatBuffer();
        ChronicleMapBuilder<byte[], byte[]> builder = ChronicleMap.of(byte[].class, byte[].class)
                .name(file.getFileName().toString())
                .constantKeySizeBySample(key).constantValueSizeBySample(value).entries(table.rows())
                .skipCloseOnExitHook(true).checksumEntries(true);
        capacity = Math.clamp(cacheBytes / (4L * stride + 32), 16, Integer.MAX_VALUE / stride - 8);
        places = new Long2LongHashMap(capacity, 0.5f, MISSING);
        changedKeys = new long[capacity];
        changed = new float[capacity * stride];
        stepping = new TrainedWeights(table.rule(), table.width(), KNOWN_STEPS);
        gradient = new float[table.width()];
        // Last: nothing would close the map of an object that is not complete.
        map = Files.exists(file) ? builder.recoverPersistedTo(file.toFile(), true)
                : builder.createPersistedTo(file.toFile());
    }

    /**
     * Opens the files of all tables of a server, or none if one cannot be opened.
     *
     * @param directory may be {@code null} if there are no tables
     */
    public static EmbeddingRows[] open(List<Plan.Table> tables, @Nullable Path directory, long cacheBytes)
            throws IOException {
        EmbeddingRows[] all = new EmbeddingRows[tables.size()];
        int opened = 0;
        try {
            while (opened < all.length) {
                all[opened] = new EmbeddingRows(tables.get(opened),
                        Objects.requireNonNull(directory).resolve("table-" + opened + ".rows"), cacheBytes);
                opened++;
            }
            return all;
        } finally {
            for (int t = 0; opened < all.length && t < opened; t++) {
                all[t].close();
            }
        }
    }

    /** Returns whether {@code n} more rows may change before a snapshot is due. */
    public boolean hasRoom(int n) {
        return changes == 0 || changes + (long) n <= capacity;
    }

    /** Copies a row's weights; a row that was never written has its initial ones. */
    public void read(long rowKey, float[] into, int at) {
        long place = places.get(rowKey);
        if (place != MISSING) {
            System.arraycopy(changed, (int) place * stride, into, at, table.width());
        } else if (load(rowKey)) {
            valueView.get(0, into, at, table.width());
        } else {
            initial(rowKey, into, at);
        }
    }

    private boolean load(long rowKey) {
        keyView.putLong(0, rowKey);
        byte[] found = map.getUsing(key, value);
        if (found != null && found != value) {
            System.arraycopy(found, 0, value, 0, value.length);
        }
        return found != null;
    }

    private void initial(long rowKey, float[] into, int at) {
        for (int i = 0; i < table.width(); i++) {
            long bits = Plan.mix(Plan.mix(rowKey) + i);
            // Adding 0 turns -0 into 0.
            into[at + i] = (float) (table.scale() * (2 * ((bits >>> 11) * 0x1p-53) - 1)) + 0f;
        }
    }

    /**
     * Applies the rule to a row.
     *
     * @return index of the row in {@link #changed()}
     */
    public int step(long rowKey, float[] gradients, int at, double rate) {
        int row = place(rowKey) * stride;
        int width = table.width();
        for (int from = 0; from < stride - 1; from += width) {
            stepping.set(from / width, changed, row + from, width);
        }
        System.arraycopy(gradients, at, gradient, 0, width);
        float step = ++changed[row + stride - 1];
        stepping.step(gradient, rate, (long) step);
        for (int from = 0; from < stride - 1; from += width) {
            stepping.get(from / width, changed, row + from, width);
        }
        return row;
    }

    /** Returns the changed rows; valid until the next {@link #step}. */
    public float[] changed() {
        return changed;
    }

    private int place(long rowKey) {
        long known = places.get(rowKey);
        if (known != MISSING) {
            return (int) known;
        }
        if (changes == changedKeys.length) {
            changedKeys = Arrays.copyOf(changedKeys, 2 * changes);
            changed = Arrays.copyOf(changed, Math.multiplyExact(2 * changes, stride));
        }
        int place = changes++;
        if (load(rowKey)) {
            valueView.get(0, changed, place * stride, stride);
        } else {
            int row = place * stride;
            initial(rowKey, changed, row);
            Arrays.fill(changed, row + table.width(), row + stride - 1, (float) table.rule().initial());
            changed[row + stride - 1] = 0;
            rows++;
        }
        changedKeys[place] = rowKey;
        places.put(rowKey, place);
        return place;
    }

    /**
     * Puts a complete row into the map. Used where a torn row does no harm, because the journal contains it.
     *
     * @param stamp number of the journal's record from which the row is
     */
    public void restore(long rowKey, float[] row, int at, long stamp) {
        keyView.putLong(0, rowKey);
        valueView.put(0, row, at, stride);
        valueBytes.putLong(4 * stride, stamp);
        put(key, value);
    }

    /** Puts a row of a checkpoint into the map. Called by the restoring thread, while no other thread changes rows. */
    public void restore(byte[] rowKey, byte[] stamped) {
        put(rowKey, stamped);
    }

    private void put(byte[] rowKey, byte[] stamped) {
        try {
            map.put(rowKey, stamped);
        } catch (IllegalStateException e) {
            if (map.isClosed() || map.longSize() < table.rows()) {
                throw e;
            }
            throw new ServerException("table " + table.name() + " is full: " + file + " has " + map.longSize()
                    + " rows, and a capacity of " + table.rows() + "; build the table with more rows, give its servers "
                    + "empty directories, and resume from a checkpoint", e);
        }
    }

    /** Moves all changed rows into the map, and forces the map to the disk. */
    public void flush(long stamp) throws IOException {
        spill(stamp);
        sync();
    }

    /**
     * Moves all changed rows into the map.
     *
     * @param stamp number of the journal's last record
     */
    private void spill(long stamp) {
        Cut receiver = cut;
        if (receiver == null) {
            for (int i = 0; i < changes; i++) {
                restore(changedKeys[i], changed, i * stride, stamp);
            }
        } else {
            spillBackwards(stamp, receiver);
        }
        changes = 0;
        places.clear();
    }

    /** Visits segments in the reverse order of {@link #scan}, so that the two threads wait for each other only once. */
    private void spillBackwards(long stamp, Cut receiver) {
        long[] bySegment = new long[changes];
        for (int i = 0; i < changes; i++) {
            keyView.putLong(0, changedKeys[i]);
            try (ExternalMapQueryContext<byte[], byte[], ?> row = map.queryContext(key)) {
                bySegment[i] = (long) row.segmentIndex() << Integer.SIZE | i;
            }
        }
        Arrays.sort(bySegment);
        for (int i = changes - 1; i >= 0; i--) {
            int place = (int) bySegment[i];
            deliver(changedKeys[place], receiver);
            restore(changedKeys[place], changed, place * stride, stamp);
        }
    }

    /**
     * Returns a row with weights of 0 and the rule's initial state. Its stamp is 0: it is older than all records of the
     * journal to come.
     */
    ByteBuffer emptyRow() {
        ByteBuffer row = ByteBuffer.allocate(value.length).order(ORDER);
        for (int i = table.width(); i < stride - 1; i++) {
            row.putFloat(Float.BYTES * i, (float) table.rule().initial());
        }
        return row;
    }

    // ---- a cut ----

    /** Returns the size of a row in bytes: its floats, little-endian. */
    int rowBytes() {
        return 4 * stride;
    }

    /**
     * Takes a cut: delivers all rows with their present contents while another thread calls {@link #scan}, until
     * {@link #endCut}.
     *
     * @param stamp number of the journal's last record, which is on the disk
     */
    public void cut(long stamp, Cut receiver) {
        spill(stamp);
        scanned = 0;
        cutAt = stamp;
        cut = receiver;
    }

    /** Delivers a row that is about to change, unless it was delivered or is newer than the cut. */
    private void deliver(long rowKey, Cut receiver) {
        keyView.putLong(0, rowKey);
        try (ExternalMapQueryContext<byte[], byte[], ?> row = map.queryContext(key)) {
            // If the scanning thread finishes the segment meanwhile, it delivers the same, unchanged row again.
            if (row.segmentIndex() >= scanned) {
                row.readLock().lock();
                MapEntry<byte[], byte[]> entry = row.entry();
                if (entry != null && stamp(entry.value().getUsing(replaced)) <= cutAt) {
                    receiver.onRow(rowKey, replaced);
                }
            }
        }
    }

    /** Delivers the rows of the map's next segment, which is locked meanwhile; returns false if none is left. */
    boolean scan(Cut receiver) {
        if (scanned == map.segments()) {
            return false;
        }
        byte[] scannedKey = new byte[8];
        ByteBuffer keys = ByteBuffer.wrap(scannedKey);
        try (MapSegmentContext<byte[], byte[], ?> segment = map.segmentContext(scanned)) {
            segment.forEachSegmentEntry(entry -> {
                entry.key().getUsing(scannedKey);
                if (stamp(entry.value().getUsing(scannedValue)) <= cutAt) {
                    receiver.onRow(keys.getLong(0), scannedValue);
                }
            });
        }
        scanned++;
        return true;
    }

    private long stamp(byte[] stamped) {
        return (long) LONG.get(stamped, 4 * stride);
    }

    /** Ends the delivery of rows. */
    void endCut() {
        cut = null;
    }

    /** Removes all rows. */
    public void clear() {
        map.clear();
        rows = 0;
    }

    /** Forces the map, which contains all rows, to the disk: the system writes all changed pages of the file. */
    void sync() throws IOException {
        rows = map.longSize();
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.WRITE)) {
            channel.force(true);
        }
    }

    /** Returns the number of rows in the map. */
    public long size() {
        return map.longSize();
    }

    /** Returns the number of rows of the table, with those that are not in the map yet. */
    public long rows() {
        return rows;
    }

    /**
     * Checks that the map contains all rows that the snapshot and the journal have counted. Opening the file has
     * dropped the rows that it has lost or whose checksums are wrong; the journal has replaced those that a crash tore.
     */
    public void requireRows(long counted) {
        if (map.longSize() < counted) {
            throw new ServerException(file + " has lost " + (counted - map.longSize()) + " of " + counted
                    + " rows of table " + table.name() + "; put an intact copy back, or give the server an empty "
                    + "directory and resume from a checkpoint", null);
        }
    }

    @Override
    public void close() {
        map.close();
    }
}
