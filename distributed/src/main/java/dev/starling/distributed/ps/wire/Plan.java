package dev.starling.distributed.ps.wire;

import dev.starling.distributed.group.Control;
import dev.starling.distributed.ps.config.Consistency;
import dev.starling.nn.optim.TensorRule;
import dev.starling.tensor.Shape;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Rule;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The division of parameters and tables among servers. All members compute the same plan from the same settings. A
 * large parameter is split into one part for each server; a small one, or one whose rule needs it as a whole, goes to
 * the server with the fewest elements. Parts are divided into blocks. {@link #serverOf} returns the server of a row.
 *
 * @param servers number of servers
 * @param workers number of workers for which servers wait at the start
 * @param blockLength maximum number of elements in a block
 * @param consistency how many steps workers may be apart
 * @param dense parameters, in the order of the optimiser
 * @param tables of rows
 */
public record Plan(int servers, int workers, int blockLength, Consistency consistency, List<Dense> dense,
        List<Table> tables) {
    /** Minimum number of elements in a part. */
    private static final int MIN_PART = 1024;
    private static final int ALIGNMENT = 16;
    /** Maximum number of elements in a block: servers keep requests of that length ready. */
    private static final int MAX_BLOCK = 1 << 16;
    private static final int VERSION = 4;
    /** Maximum number of elements stored for a row: three times those of a message, and one. */
    public static final int MAX_STRIDE = 1 << 17;

    /** Maximum number of elements of a parameter that is not split. */
    private static final int MAX_WHOLE = 1 << 28;

    /**
     * A parameter.
     *
     * @param rule of its steps
     * @param whole what its steps need in addition if they need the parameter as a whole, otherwise {@code null}
     */
    public record Dense(String name, long count, Rule rule, @Nullable Whole whole) {
        /** Checks the number of elements, and that the rule of a whole parameter applies to it. */
        public Dense {
            if (count < 0) {
                throw TensorException.argument("parameter server", "a parameter must have 0 elements or more, got "
                        + name + " with " + count, "correct the plan");
            }
            if (whole != null && (count > MAX_WHOLE || whole.shape.count() != count || !rule.slots().isEmpty()
                    || whole.slots().stream().anyMatch(slot -> slot.count() > count))) {
                throw TensorException.argument("parameter server", "a parameter that is not split must have the "
                        + "elements of its shape, at most " + MAX_WHOLE + ", got " + name + " with " + count
                        + " elements and shape " + whole.shape, "train a larger one with a rule such as Adam");
            }
        }

        /** A parameter with a rule for each element. */
        public Dense(String name, long count, Rule rule) {
            this(name, count, rule, null);
        }

        /** Returns the number of the state's arrays. On the wire and in files, each is as long as the parameter. */
        public int slots() {
            return whole != null ? whole.slots().size() : rule.slots().size();
        }
    }

    /** The rule that computes, from the gradient of a parameter with a shape, the direction of a step. */
    public record Whole(TensorRule direction, Shape shape) {
        /** Returns the shapes of the state, in its order. */
        public List<Shape> slots() {
            return List.copyOf(direction.slots(shape).values());
        }
    }

    /**
     * A table of rows, found by 64-bit keys.
     *
     * @param width elements of a row
     * @param rows capacity of one server
     * @param scale initial rows are uniform in ±scale
     */
    public record Table(String name, int width, long rows, double scale, Rule rule) {
        /** Returns the number of elements stored for a row: weights, state of the rule, and number of updates. */
        public int stride() {
            return width * (1 + rule.slots().size()) + 1;
        }
    }

    /** A piece of a parameter that one server holds. */
    public record Block(int parameter, long from, int length) { }

    public Plan {
        if (servers < 1 || servers > Control.MAX_MEMBERS || workers < 1 || workers > Control.MAX_MEMBERS
                || blockLength < 1 || blockLength > MAX_BLOCK) {
            throw TensorException.argument("parameter server", "servers and workers must be from 1 to "
                    + Control.MAX_MEMBERS + " and blockLength from 1 to " + MAX_BLOCK + ", got " + servers + ", "
                    + workers + " and " + blockLength, "correct the builder's settings");
        }
        dense = List.copyOf(dense);
        tables = List.copyOf(tables);
        for (Table t : tables) {
            if (t.width < 1 || t.width > blockLength - 2 || t.rows < 1) {
                throw TensorException.argument("parameter server", "the rows of table " + t.name + " must have 1 to "
                        + (blockLength - 2) + " elements and there must be at least 1 row, got width " + t.width
                        + " and " + t.rows + " rows", "correct the table's builder");
            }
        }
    }

    /**
     * Returns the blocks of a server, in the order of parameters. The units of a server are its blocks, followed by all
     * tables.
     */
    public List<Block> blocks(int server) {
        List<Block> blocks = new ArrayList<>();
        long[] load = new long[servers];
        for (int p = 0; p < dense.size(); p++) {
            long count = dense.get(p).count;
            if (count < (long) MIN_PART * servers || dense.get(p).whole != null) {
                int leastLoaded = 0;
                for (int s = 1; s < servers; s++) {
                    leastLoaded = load[s] < load[leastLoaded] ? s : leastLoaded;
                }
                load[leastLoaded] += count;
                if (leastLoaded == server) {
                    cut(blocks, p, 0, count);
                }
            } else {
                for (int s = 0; s < servers; s++) {
                    load[s] += edge(count, s + 1) - edge(count, s);
                }
                cut(blocks, p, edge(count, server), edge(count, server + 1));
            }
        }
        return blocks;
    }

    private long edge(long count, int part) {
        return part == servers ? count : count * part / servers / ALIGNMENT * ALIGNMENT;
    }

    private void cut(List<Block> blocks, int parameter, long from, long to) {
        for (long at = from; at < to; at += blockLength) {
            blocks.add(new Block(parameter, at, (int) Math.min(blockLength, to - at)));
        }
    }

    /** Returns the server that holds the row of a key. */
    public int serverOf(long key) {
        return (int) Math.floorMod(mix(key), (long) servers);
    }

    /** Mixes the bits of a number. (Steele, Lea and Flood, 2014) */
    public static long mix(long value) {
        long z = value + 0x9E3779B97F4A7C15L;
        z = (z ^ z >>> 30) * 0xBF58476D1CE4E5B9L;
        z = (z ^ z >>> 27) * 0x94D049BB133111EBL;
        return z ^ z >>> 31;
    }

    public byte[] encode() {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (DataOutputStream out = new DataOutputStream(bytes)) {
            out.writeInt(VERSION);
            out.writeInt(servers);
            out.writeInt(workers);
            out.writeInt(blockLength);
            out.writeInt(switch (consistency) {
                case Consistency.Asynchronous a -> -1;
                case Consistency.Synchronous s -> -2;
                case Consistency.Stale s -> s.bound();
            });
            out.writeInt(dense.size());
            for (Dense d : dense) {
                out.writeUTF(d.name);
                out.writeLong(d.count);
                RuleFormat.write(d.rule, out);
                out.writeBoolean(d.whole != null);
                if (d.whole != null) {
                    RuleFormat.write(d.whole.direction, out);
                    out.writeByte(d.whole.shape.rank());
                    for (long size : d.whole.shape.dims()) {
                        out.writeLong(size);
                    }
                }
            }
            out.writeInt(tables.size());
            for (Table t : tables) {
                out.writeUTF(t.name);
                out.writeInt(t.width);
                out.writeLong(t.rows);
                out.writeDouble(t.scale);
                RuleFormat.write(t.rule, out);
            }
        } catch (IOException e) {
            throw new AssertionError("writing to a byte array cannot fail", e);
        }
        return bytes.toByteArray();
    }

    public static Plan decode(byte[] bytes) throws IOException {
        DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes));
        int version = in.readInt();
        if (version < 2 || version > VERSION) {
            throw new IOException("the plan has another version; use the same version of Starling everywhere");
        }
        int servers = in.readInt();
        int workers = in.readInt();
        int blockLength = in.readInt();
        int bound = in.readInt();
        List<Dense> dense = new ArrayList<>();
        for (int i = in.readInt(); i > 0; i--) {
            dense.add(new Dense(in.readUTF(), in.readLong(), RuleFormat.read(in, version),
                    version >= 4 && in.readBoolean() ? readWhole(in) : null));
        }
        List<Table> tables = new ArrayList<>();
        for (int i = in.readInt(); i > 0; i--) {
            tables.add(new Table(in.readUTF(), in.readInt(), in.readLong(), in.readDouble(),
                    RuleFormat.read(in, version)));
        }
        return new Plan(servers, workers, blockLength, bound == -1 ? new Consistency.Asynchronous()
                : bound == -2 ? new Consistency.Synchronous() : new Consistency.Stale(bound), dense, tables);
    }

    private static Whole readWhole(DataInputStream in) throws IOException {
        TensorRule direction = RuleFormat.readWhole(in);
        long[] dims = new long[Math.min(in.readUnsignedByte(), Shape.MAX_RANK + 1)];
        for (int i = 0; i < dims.length; i++) {
            dims[i] = in.readLong();
        }
        return new Whole(direction, Shape.of(dims));
    }

    /** Describes the first difference of another plan from this one, or returns an empty text. */
    public String difference(Plan other) {
        if (servers != other.servers || workers != other.workers) {
            return other.workers + " workers and " + other.servers + " servers, not " + workers + " and " + servers;
        }
        if (!consistency.equals(other.consistency)) {
            return "consistency " + other.consistency + ", not " + consistency;
        }
        if (!dense.equals(other.dense)) {
            return first("parameter", dense, other.dense);
        }
        return !tables.equals(other.tables) ? first("table", tables, other.tables)
                : blockLength != other.blockLength ? "another transport or another message size" : "";
    }

    private static String first(String what, List<?> mine, List<?> others) {
        int i = 0;
        while (i < mine.size() && i < others.size() && mine.get(i).equals(others.get(i))) {
            i++;
        }
        return (i < others.size() ? others.get(i) : "no " + what + " " + i) + ", not "
                + (i < mine.size() ? mine.get(i) : "no " + what + " " + i);
    }
}
