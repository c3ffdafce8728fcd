package dev.starling.distributed.ps.server;

import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.store.CheckedFile;
import dev.starling.distributed.ps.store.EmbeddingRows;
import dev.starling.distributed.ps.store.RowRequest;
import dev.starling.distributed.ps.store.RowRestorer;
import dev.starling.distributed.ps.store.RowSaver;
import dev.starling.distributed.ps.store.TrainedWeights;
import dev.starling.distributed.ps.wire.Message;
import dev.starling.distributed.ps.wire.Plan;
import dev.starling.distributed.ps.wire.RowSum;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * The state of one server: its blocks, its rows, and the clocks of workers, and how requests change it. Confined to one
 * thread at a time. The same requests in the same order give the same bits.
 */
final class Shard implements AutoCloseable {
    private static final long MAGIC = 0x31_53_50_4c_52_54_53L;

    private final Plan plan;
    private final byte[] encodedPlan;
    private final int server;
    private final List<Plan.Block> layout;
    final int blocks;
    /** Blocks and tables. */
    final int units;
    final Clocks clocks;
    /** {@code null} unless training is synchronous. */
    private final @Nullable PendingGradients gathering;
    private final RowSum sum = new RowSum();
    /** Whether a block has weights. */
    private final boolean[] ready;
    /** Whether tables have their initial rows; workers that join earlier wait. Other threads read it. */
    private volatile boolean hasRows;
    private final long[] versions;
    private final TrainedWeights[] weights;
    private final EmbeddingRows[] tables;
    /** Number of the journal's last record. */
    private long sequence;
    /** Number of requests refused because they were malformed, out of order or of an old session. */
    private volatile long refused;

    /**
     * Creates a shard without weights.
     *
     * @param directory for the files of tables; may be {@code null} if there are no tables
     */
    Shard(Plan plan, int server, @Nullable Path directory, long cacheBytes) throws IOException {
        this.plan = plan;
        this.server = server;
        encodedPlan = plan.encode();
        layout = plan.blocks(server);
        blocks = layout.size();
        units = blocks + plan.tables().size();
        clocks = new Clocks(units, plan.workers());
        gathering = plan.consistency() instanceof Consistency.Synchronous ? new PendingGradients(clocks) : null;
        ready = new boolean[blocks];
        versions = new long[units];
        weights = layout.stream().map(b -> new TrainedWeights(plan.dense().get(b.parameter()).rule(), b.length(),
                1))
                .toArray(TrainedWeights[]::new);
        tables = new EmbeddingRows[plan.tables().size()];
        for (int t = 0; t < tables.length; t++) {
            tables[t] = new EmbeddingRows(plan.tables().get(t),
                    Objects.requireNonNull(directory).resolve("table-" + t + ".rows"), cacheBytes);
        }
    }

    int server() {
        return server;
    }

    int lengthOf(int unit) {
        return layout.get(unit).length();
    }

    Plan.Table tableOf(int unit) {
        return plan.tables().get(unit - blocks);
    }

    private boolean isReady(int unit) {
        return unit < blocks ? ready[unit] : hasRows;
    }

    private int slotsOf(int unit) {
        return plan.dense().get(layout.get(unit).parameter()).rule().slots().size();
    }

    long sequence() {
        return sequence;
    }

    long refused() {
        return refused;
    }

    // ---- requests ----

    /** Returns whether a snapshot must precede this request, because too many rows have changed. */
    boolean isFullFor(Request e) {
        return e.kind == Message.PUSH_ROWS && !tables[e.unit - blocks].hasRoom(Math.max(e.count, 1));
    }

    /** Applies a request, and stores in it the journal record to write and the replies to send. */
    void apply(Request e) {
        e.recordKind = Journal.CLOCKS;
        switch (e.kind) {
            case Message.JOIN -> join(e);
            case Message.PUSH, Message.PUSH_ROWS -> push(e);
            case Message.PULL -> {
                // A server that was restarted without weights makes the worker rejoin, which provides its weights.
                e.status = isReady(e.unit) ? e.status : Message.UNKNOWN_SESSION;
                e.reply(e.worker, e.session, e.sequence);
                put(e, e.slot);
            }
            case Message.KEPT -> keep(e);
            case Message.PULL_ROWS -> pullRows(e);
            case Message.LEAVE -> leave(e);
            case Message.ROWS_READY -> setRowsReady(e);
            case Message.CUT -> { }
            default -> refused++;
        }
    }

    private void join(Request e) {
        int slot = clocks.slot(e.unit, e.worker);
        if (!clocks.knows(slot, e.session)) {
            clocks.join(e.unit, e.worker, e.session);
            if (gathering != null) {
                gathering.clear(slot);
            }
            clocks.write(e.unit, e.worker, e.moved);
            e.record = ++sequence;
        }
        if (e.unit >= blocks && e.worker == 0 && !hasRows) {
            // There is no checkpoint to restore: worker 0 joins a table only after the restored rows are ready.
            setRowsReady(e);
        } else if (!isReady(e.unit) && e.count > 0) {
            weights[e.unit].set(0, e.gradient, 0, e.count);
            ready[e.unit] = true;
            e.recordKind = Journal.WEIGHTS;
            e.recorded = e.count;
            e.record = e.record == 0 ? ++sequence : e.record;
        }
        clocks.waiting[slot] = true;
        release(e);
    }

    /** Marks the tables as having their initial rows. */
    private void setRowsReady(Request e) {
        hasRows = true;
        e.recordKind = Journal.ROWS_READY;
        e.record = e.record == 0 ? ++sequence : e.record;
    }

    private void leave(Request e) {
        int slot = clocks.slot(e.unit, e.worker);
        if (clocks.states[slot] == Clocks.LEFT) {
            return;
        }
        clocks.leave(slot);
        clocks.write(e.unit, e.worker, e.moved);
        e.record = ++sequence;
        if (gathering != null) {
            gathering.clear(slot);
            stepIfComplete(gathering, e);
        }
        release(e);
    }

    private void push(Request e) {
        int slot = clocks.slot(e.unit, e.worker);
        if (gathering == null) {
            // No worker has waited for the lost one, so it may continue its session; counts reject repeated pushes.
            clocks.readmit(e.unit, e.worker, e.session);
        }
        if (!clocks.knows(slot, e.session) || !isReady(e.unit)) {
            e.status = Message.UNKNOWN_SESSION;
            e.reply(e.worker, e.session, e.sequence);
            refused++;
            return;
        }
        boolean ofRows = e.kind == Message.PUSH_ROWS;
        // The server is the last to protect the weights that all workers share.
        if (!e.isFinite(ofRows ? e.count * tableOf(e.unit).width() : e.count)) {
            e.status = Message.NOT_FINITE;
            e.reply(e.worker, e.session, e.sequence);
            refused++;
            return;
        }
        boolean last = !ofRows || e.last;
        long next = clocks.counts[slot] + (gathering == null ? 0 : gathering.parts[slot]);
        if (e.sequence > next) {
            refused++;
            return;
        }
        if (e.sequence == next) {
            if (gathering != null) {
                int floats = ofRows ? e.count * tableOf(e.unit).width() : e.count;
                gathering.add(slot, e, floats, ofRows, last);
                stepIfComplete(gathering, e);
            } else {
                if (ofRows) {
                    sum.begin(tableOf(e.unit).width());
                    sum.add(e.keys, e.count, e.gradient, 1);
                    stepRows(e);
                } else {
                    step(e, e.count > 0);
                }
                clocks.counts[slot]++;
                clocks.clocks[slot] += last ? 1 : 0;
                clocks.write(e.unit, e.worker, e.moved);
                e.record = ++sequence;
            }
        }
        // A repeated push is answered, too, when its worker may continue.
        clocks.waiting[slot] |= gathering == null || e.sequence < clocks.counts[slot];
        release(e);
    }

    private void step(Request e, boolean hasGradient) {
        e.recordKind = hasGradient ? Journal.GRADIENT : Journal.NO_GRADIENT;
        if (hasGradient) {
            versions[e.unit]++;
            e.recorded = lengthOf(e.unit);
            step(e.unit, e.gradient, e.rate);
        }
    }

    private void step(int unit, float[] gradient, double rate) {
        weights[unit].step(gradient, rate, versions[unit]);
    }

    /** Takes a step on the rows whose gradients were summed. */
    private void stepRows(Request e) {
        EmbeddingRows rows = tables[e.unit - blocks];
        Plan.Table table = tableOf(e.unit);
        e.recordKind = Journal.ROWS;
        e.recorded = sum.size();
        e.reserveRows(sum.size(), table.stride());
        for (int i = 0; i < sum.size(); i++) {
            int row = rows.step(sum.keys()[i], sum.sums(), i * table.width(), e.rate);
            e.keys[i] = sum.keys()[i];
            System.arraycopy(rows.changed(), row, e.rows, i * e.stride, e.stride);
        }
    }

    /** Takes a synchronous step if the gradients of all workers have arrived. */
    private void stepIfComplete(PendingGradients pending, Request e) {
        int unit = e.unit;
        if (!pending.isComplete(unit)) {
            return;
        }
        e.rate = pending.rate(unit);
        if (unit < blocks) {
            step(e, pending.sum(unit, e.gradient, lengthOf(unit)));
        } else {
            sum.begin(tableOf(unit).width());
            for (int slot = clocks.slot(unit, 0); slot < clocks.slot(unit + 1, 0); slot++) {
                if (pending.complete[slot]) {
                    sum.add(pending.keys[slot], pending.sizes[slot], pending.gradients[slot],
                            (float) pending.weights[slot]);
                }
            }
            stepRows(e);
        }
        for (int w = 0; w < plan.workers(); w++) {
            int slot = clocks.slot(unit, w);
            if (pending.complete[slot]) {
                clocks.counts[slot] += pending.parts[slot];
                clocks.clocks[slot]++;
                clocks.waiting[slot] = true;
                pending.clear(slot);
                clocks.write(unit, w, e.moved);
            }
        }
        e.record = e.record == 0 ? ++sequence : e.record;
    }

    /** Replies to all workers that wait for a unit and may continue. */
    private void release(Request e) {
        if (!isReady(e.unit)) {
            return;
        }
        long furthest = Long.MAX_VALUE;
        if (plan.consistency() instanceof Consistency.Stale stale) {
            long slowest = clocks.slowest(e.unit);
            furthest = slowest > Long.MAX_VALUE - stale.bound() ? Long.MAX_VALUE : slowest + stale.bound();
        }
        for (int w = 0; w < plan.workers(); w++) {
            int slot = clocks.slot(e.unit, w);
            if (clocks.waiting[slot] && clocks.clocks[slot] <= furthest) {
                clocks.waiting[slot] = false;
                e.reply(w, clocks.sessions[slot], clocks.counts[slot] - 1);
            }
        }
        if (e.replies > 0) {
            put(e, 0);
        }
    }

    /** Puts weights, or a slot of the rule's state, into the reply. */
    private void put(Request e, int which) {
        if (e.unit < blocks && isReady(e.unit)) {
            e.weightsCount = lengthOf(e.unit);
            weights[e.unit].get(which, e.weights, 0, e.weightsCount);
        }
    }

    /** Returns whether {@code which} is valid: 0 for weights, from 1 on a slot of the rule's state. */
    boolean keeps(int unit, int which) {
        return which >= 0 && which <= slotsOf(unit);
    }

    private void keep(Request e) {
        if (!isReady(e.unit)) {
            weights[e.unit].set(e.slot, e.gradient, 0, e.count);
            versions[e.unit] = e.steps;
            e.recordKind = Journal.KEPT;
            e.recorded = e.count;
            e.record = ++sequence;
        }
    }

    private void pullRows(Request e) {
        EmbeddingRows rows = tables[e.unit - blocks];
        int width = tableOf(e.unit).width();
        for (int i = 0; i < e.count; i++) {
            rows.read(e.keys[i], e.weights, i * width);
        }
        e.weightsCount = e.count * width;
        e.reply(e.worker, e.session, e.sequence);
    }

    // ---- checkpoints ----

    /** Starts to write all rows as they are now. The journal must be on the disk. */
    void cut(RowSaver saving, @Nullable String threadName) {
        saving.begin(plan, server, tables, sequence, threadName);
    }

    /** Returns a task for another thread: fills the tables from a checkpoint unless they have rows of this run. */
    RowRestorer restoring(long id, List<RowRequest.Source> parts, Runnable whenDone) {
        return new RowRestorer(id, plan, server, tables, parts, hasRows, whenDone);
    }

    // ---- recovery ----

    /** Returns whether the shard has weights or rows. */
    boolean isFilled() {
        for (int u = 0; u < blocks; u++) {
            if (ready[u] && lengthOf(u) > 0) {
                return true;
            }
        }
        return Arrays.stream(tables).anyMatch(table -> table.size() > 0);
    }

    /** Applies a record of the journal. */
    void replay(ByteBuffer r) {
        int unit = r.getInt(Journal.UNIT);
        int count = r.getInt(Journal.COUNT);
        r.position(Journal.RECORD_HEADER);
        for (int i = r.getInt(Journal.MOVED_COUNT); i > 0; i--) {
            clocks.read(unit, r);
        }
        int at = r.position();
        switch (r.getInt(Journal.KIND)) {
            case Journal.GRADIENT -> {
                versions[unit]++;
                step(unit, floats(r, at, count), r.getDouble(Journal.RATE));
            }
            case Journal.WEIGHTS -> {
                weights[unit].set(0, floats(r, at, count), 0, count);
                ready[unit] = true;
            }
            case Journal.KEPT -> {
                weights[unit].set(r.getInt(Journal.STRIDE), floats(r, at, count), 0, count);
                versions[unit] = (long) r.getDouble(Journal.RATE);
            }
            case Journal.ROWS -> {
                int stride = r.getInt(Journal.STRIDE);
                float[] rows = floats(r, at + 8 * count, count * stride);
                for (int i = 0; i < count; i++) {
                    tables[unit - blocks].restore(r.getLong(at + 8 * i), rows, i * stride,
                            r.getLong(Journal.SEQUENCE));
                }
            }
            case Journal.ROWS_READY -> hasRows = true;
            default -> { }
        }
        sequence = r.getLong(Journal.SEQUENCE);
    }

    /** Removes rows of a checkpoint that was not read to its end. */
    void dropIncompleteRows() {
        for (EmbeddingRows table : tables) {
            if (!hasRows && table.size() > 0) {
                table.clear();
            }
        }
    }

    private static float[] floats(ByteBuffer from, int at, int n) {
        float[] floats = new float[n];
        for (int i = 0; i < n; i++) {
            floats[i] = from.getFloat(at + 4 * i);
        }
        return floats;
    }

    /** Writes a snapshot, which replaces the previous one. */
    void save(Path path) throws IOException {
        for (EmbeddingRows table : tables) {
            table.flush(sequence);
        }
        try (CheckedFile out = CheckedFile.write(path)) {
            out.putLong(MAGIC);
            out.put(encodedPlan);
            out.putInt(server);
            out.putLong(sequence);
            out.putInt(hasRows ? 1 : 0);
            for (int slot = 0; slot < clocks.states.length; slot++) {
                out.putInt(clocks.states[slot]);
            }
            out.put(clocks.sessions);
            out.put(clocks.counts);
            out.put(clocks.clocks);
            out.put(versions);
            for (int u = 0; u < blocks; u++) {
                out.putInt(ready[u] ? 1 : 0);
                float[] floats = new float[lengthOf(u)];
                for (int k = 0; k <= slotsOf(u); k++) {
                    weights[u].get(k, floats, 0, floats.length);
                    out.put(floats);
                }
            }
            out.commit();
        }
    }

    /** Reads the snapshot that {@link #save} wrote, if it exists. */
    void load(Path path) throws IOException {
        if (!Files.exists(path)) {
            return;
        }
        try (CheckedFile in = CheckedFile.read(path)) {
            checkPlan(path, in, plan, server);
            sequence = in.getLong();
            hasRows = in.getInt() == 1;
            for (int slot = 0; slot < clocks.states.length; slot++) {
                clocks.states[slot] = (byte) in.getInt();
            }
            in.get(clocks.sessions);
            in.get(clocks.counts);
            in.get(clocks.clocks);
            in.get(versions);
            for (int u = 0; u < blocks; u++) {
                ready[u] = in.getInt() == 1;
                float[] floats = new float[lengthOf(u)];
                for (int k = 0; k <= slotsOf(u); k++) {
                    in.get(floats);
                    weights[u].set(k, floats, 0, floats.length);
                }
            }
            in.verify();
        }
    }

    private static void checkPlan(Path path, CheckedFile in, Plan plan, int server) throws IOException {
        if (in.getLong() != MAGIC) {
            throw new IOException(path + " is not a snapshot of a parameter server");
        }
        byte[] saved = in.getBytes();
        int of = in.getInt();
        if (!Plan.decode(saved).equals(plan) || of != server) {
            throw new IOException(path + " belongs to server " + of + " of another run: the model, the optimiser, the "
                    + "number of servers or workers or the consistency differs; use an empty directory, or the "
                    + "settings of that run");
        }
    }

    @Override
    public void close() {
        for (EmbeddingRows table : tables) {
            table.close();
        }
    }
}
