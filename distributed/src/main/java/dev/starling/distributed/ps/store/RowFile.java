package dev.starling.distributed.ps.store;

import dev.starling.distributed.ps.store.RowTask.RowException;
import dev.starling.distributed.ps.wire.Plan;
import dev.starling.tensor.op.Rule;
import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * Reads and writes the rows of one server in a checkpoint. A header lists the tables. Rows of all tables follow in any
 * order: table number, key, floats. The file ends with -1, the number of rows and the checksum. A row may occur twice,
 * with the same contents.
 */
public final class RowFile implements Closeable {
    private static final long MAGIC = 0x31_57_4f_52_4c_52_54_53L;
    private static final int MAX_TABLES = 1 << 16;
    /** Largest number of slots of any rule: that of centred RMSprop with momentum. */
    private static final int MAX_SLOTS = 3;
    private static final int END = -1;

    /**
     * A table as the file describes it.
     *
     * @param rule its name and the names of its slots; only its name in files of earlier versions
     */
    record Table(String name, int width, int slots, double scale, String rule) {
        static Table of(Plan.Table table) {
            return new Table(table.name(), table.width(), table.rule().slots().size(), table.scale(),
                    table.rule().name() + table.rule().slots());
        }

        /**
         * Returns whether the state in the file is that of a rule. The name of the rule alone does not tell the two
         * variants of RMSprop with two slots apart.
         */
        boolean hasStateOf(Rule other) {
            return slots == other.slots().size() && (rule.equals(other.name() + other.slots())
                    || rule.equals(other.name()) && !(other instanceof Rule.Rmsprop && slots == 2));
        }

        int stride() {
            return width * (1 + slots) + 1;
        }
    }

    private final Path path;
    private final CheckedFile in;
    public final int server;
    public final int servers;
    public final long step;
    final List<Table> tables = new ArrayList<>();
    private final byte[][] rows;
    private long count;
    /** Table and key of the last row read. */
    int table;
    long key;

    // ---- writing ----

    static void putHeader(CheckedFile out, Plan plan, int server, long step) throws IOException {
        out.putLong(MAGIC);
        out.putLong(step);
        out.putInt(server);
        out.putInt(plan.servers());
        out.putInt(plan.tables().size());
        for (Plan.Table each : plan.tables()) {
            Table table = Table.of(each);
            out.put(table.name.getBytes(StandardCharsets.UTF_8));
            out.putInt(table.width);
            out.putInt(table.slots);
            out.putLong(Double.doubleToLongBits(table.scale));
            out.put(table.rule.getBytes(StandardCharsets.UTF_8));
        }
    }

    static void putRow(CheckedFile out, int table, long key, byte[] floats, int bytes) throws IOException {
        out.putInt(table);
        out.putLong(key);
        out.putAll(floats, bytes);
    }

    static void putEnd(CheckedFile out, long rows) throws IOException {
        out.putInt(END);
        out.putLong(rows);
    }

    /** Returns the text of a checksum in manifests. */
    public static String checksum(int crc) {
        return "crc32c:%08x".formatted(crc);
    }

    // ---- reading ----

    /** Opens a file and reads its header. */
    public RowFile(Path path) throws IOException {
        this.path = path;
        in = CheckedFile.read(path);
        try {
            if (in.getLong() != MAGIC) {
                throw new RowException(path, "is not a file of table rows");
            }
            step = in.getLong();
            server = in.getInt();
            servers = in.getInt();
            int n = in.getInt();
            if (n < 0 || n > MAX_TABLES) {
                throw damaged();
            }
            for (int t = 0; t < n; t++) {
                tables.add(new Table(text(), in.getInt(), in.getInt(), Double.longBitsToDouble(in.getLong()), text()));
            }
            rows = new byte[n][];
            for (int t = 0; t < n; t++) {
                Table each = tables.get(t);
                if (each.width < 1 || each.slots < 0 || each.slots > MAX_SLOTS
                        || each.stride() > Plan.MAX_STRIDE) {
                    throw damaged();
                }
                rows[t] = new byte[4 * each.stride()];
            }
        } catch (IOException | RuntimeException e) {
            in.close();
            throw e instanceof RowException known ? known : damaged();
        }
    }

    private String text() throws IOException {
        return new String(in.getBytes(), StandardCharsets.UTF_8);
    }

    private RowException damaged() {
        return new RowException(path, "is damaged");
    }

    /** Reads the next row; returns false at the end of the rows. */
    public boolean next() throws IOException {
        try {
            table = in.getInt();
            if (table == END) {
                if (in.getLong() != count) {
                    throw damaged();
                }
                return false;
            }
            if (table < 0 || table >= rows.length) {
                throw damaged();
            }
            key = in.getLong();
            in.getAll(rows[table]);
            count++;
            return true;
        } catch (EOFException e) {
            throw damaged();
        }
    }

    /** Returns the floats of the last row read, little-endian; valid until {@link #next}. */
    public ByteBuffer row() {
        return ByteBuffer.wrap(rows[table]).order(ByteOrder.LITTLE_ENDIAN);
    }

    /** Verifies the checksum; call this when all rows were read. */
    public void verify(String expected) throws IOException {
        int crc;
        try {
            crc = in.verify();
        } catch (IOException e) {
            throw new RowException(path, "is damaged: its checksum does not match");
        }
        if (!checksum(crc).equals(expected)) {
            throw new RowException(path, "belongs to another checkpoint: its checksum is " + checksum(crc)
                    + ", the manifest has " + expected);
        }
    }

    @Override
    public void close() throws IOException {
        in.close();
    }
}
