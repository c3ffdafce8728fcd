package dev.starling.distributed.ps.server;

import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.store.CheckedFile;
import dev.starling.distributed.ps.store.EmbeddingRows;
import dev.starling.distributed.ps.store.RowRequest;
import dev.starling.distributed.ps.store.RowRestorer;
import dev.starling.distributed.ps.store.RowSaver;
import dev.starling.distributed.ps.wire.Message;
import dev.starling.distributed.ps.wire.Plan;
import dev.starling.distributed.ps.wire.RowSum;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The state of one server: its blocks, its rows, and the clocks of workers, and how requests change it. Confined to one
 * thread at a time. The same requests in the same order give the same bits.
 */
final class Shard implements AutoCloseable {
    private final Plan plan;
    private final byte[] encodedPlan;
    private final int server;
    private final Blocks weights;
    final int blocks;
    /** Blocks and tables. */
    final int units;
    final Clocks clocks;
    private final boolean synchronous;
    /** Gradients until all have arrived that a step needs. */
    private final PendingGradients gathering;
    private final RowSum sum = new RowSum();
    /** Whether tables have their initial rows; workers that join earlier wait. Other threads read it. */
    private volatile boolean hasRows;
    private final EmbeddingRows[] tables;
    /** Rows of each table as the snapshot and the journal have counted them; {@code null} if these have no counts. */
    private long @Nullable [] counted;
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
        weights = new Blocks(plan, server);
        blocks = weights.count();
        units = blocks + plan.tables().size();
        clocks = new Clocks(units, plan.workers());
        synchronous = plan.consistency() instanceof Consistency.Synchronous;
        gathering = new PendingGradients(clocks);
        counted = new long[plan.tables().size()];
        try {
            tables = EmbeddingRows.open(plan.tables(), directory, cacheBytes);
        } catch (IOException | RuntimeException | Error e) {
            weights.close();
            throw e;
        }
    }

    int server() {
        return server;
    }

    int lengthOf(int unit) {
        return weights.length(unit);
    }

    Plan.Table tableOf(int unit) {
        return plan.tables().get(unit - blocks);
    }

    private boolean isReady(int unit) {
        return unit < blocks ? weights.ready[unit] : hasRows;
    }

    /** Returns whether a step on a unit needs several requests: of all workers, or for all blocks of a parameter. */
    private boolean gathers(int unit) {
        return synchronous || unit < blocks && weights.isWhole(unit);
    }

    /** Returns the first of the units that step together with one. */
    private int begin(int unit) {
        return unit < blocks ? weights.begin(unit) : unit;
    }

    private int end(int unit) {
        return unit < blocks ? weights.end(unit) : unit + 1;
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
            gathering.clear(slot);
            clocks.write(e.unit, e.worker, e.moved);
            e.record = ++sequence;
        }
        if (e.unit >= blocks && e.worker == 0 && !hasRows) {
            // There is no checkpoint to restore: worker 0 joins a table only after the restored rows are ready.
            setRowsReady(e);
        } else if (!isReady(e.unit) && e.count > 0) {
            weights.set(e.unit, 0, e.gradient);
            weights.ready[e.unit] = true;
            e.recordKind = Journal.WEIGHTS;
            e.recorded = e.count;
            e.record = e.record == 0 ? ++sequence : e.record;
        }
        clocks.waiting[slot] = true;
        release(e, e.unit);
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
        if (synchronous) {
            gathering.clear(slot);
            stepIfComplete(e);
        }
        releaseAll(e);
    }

    private void push(Request e) {
        int slot = clocks.slot(e.unit, e.worker);
        if (!synchronous) {
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
        long next = clocks.counts[slot] + (gathers(e.unit) ? gathering.parts[slot] : 0);
        if (e.sequence > next) {
            refused++;
            return;
        }
        if (e.sequence == next) {
            if (gathers(e.unit)) {
                int floats = ofRows ? e.count * tableOf(e.unit).width() : e.count;
                gathering.add(slot, e, floats, ofRows, last);
                stepIfComplete(e);
            } else {
                if (ofRows) {
                    sum.begin(tableOf(e.unit).width());
                    sum.add(e.keys, e.count, e.gradient, 1);
                    stepRows(e);
                } else {
                    step(e, e.gradient, e.count > 0);
                }
                clocks.counts[slot]++;
                clocks.clocks[slot] += last ? 1 : 0;
                clocks.write(e.unit, e.worker, e.moved);
                e.record = ++sequence;
            }
        }
        // A repeated push is answered, too, when its worker may continue.
        clocks.waiting[slot] |= !gathers(e.unit) || e.sequence < clocks.counts[slot];
        releaseAll(e);
    }

    /** Returns false if nothing has changed, because the direction of a whole parameter's step is not finite. */
    private boolean step(Request e, float[] gradient, boolean hasGradient) {
        if (hasGradient && !weights.step(e.unit, gradient, e.rate)) {
            return false;
        }
        e.recordKind = hasGradient ? Journal.GRADIENT : Journal.NO_GRADIENT;
        e.recorded = hasGradient ? weights.lengthOfStep(e.unit) : 0;
        e.stepped = gradient;
        return true;
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
        e.tableRows = rows.rows();
    }

    /** Takes a step on a unit, and on those that step together with it, if the gradients for it have arrived. */
    private void stepIfComplete(Request e) {
        int first = synchronous ? 0 : e.worker;
        int end = synchronous ? plan.workers() : e.worker + 1;
        for (int u = begin(e.unit); u < end(e.unit); u++) {
            if (!gathering.isComplete(u, first, end)) {
                return;
            }
        }
        e.rate = gathering.rate(e.unit, first);
        if (e.unit >= blocks) {
            sum.begin(tableOf(e.unit).width());
            gathering.addRows(e.unit, sum);
            stepRows(e);
        } else if (!stepGathered(e, first, end)) {
            refuseStep(e, first, end);
            return;
        }
        for (int w = first; w < end; w++) {
            for (int u = begin(e.unit); u < end(e.unit); u++) {
                int slot = clocks.slot(u, w);
                if (gathering.complete[slot]) {
                    clocks.counts[slot] += gathering.parts[slot];
                    clocks.clocks[slot]++;
                    clocks.waiting[slot] = true;
                    gathering.clear(slot);
                    if (u == e.unit) {
                        clocks.write(u, w, e.moved);
                    }
                }
            }
        }
        e.record = e.record == 0 ? ++sequence : e.record;
    }

    private boolean stepGathered(Request e, int first, int end) {
        if (!weights.isWhole(e.unit)) {
            return step(e, e.gradient, gathering.sum(e.unit, first, end, e.gradient, 0, lengthOf(e.unit)));
        }
        float[] gradient = new float[weights.lengthOfStep(e.unit)];
        boolean any = false;
        for (int u = begin(e.unit), at = 0; u < end(e.unit); at += lengthOf(u++)) {
            any |= gathering.sum(u, first, end, gradient, at, lengthOf(u));
        }
        return step(e, gradient, any);
    }

    /** Drops gradients along whose direction no step can be taken, and replies so to their workers. */
    private void refuseStep(Request e, int first, int end) {
        e.status = Message.NOT_FINITE;
        refused++;
        for (int w = first; w < end; w++) {
            int slot = clocks.slot(e.unit, w);
            if (gathering.complete[slot]) {
                e.reply(w, clocks.sessions[slot], clocks.counts[slot]);
            }
            for (int u = begin(e.unit); u < end(e.unit); u++) {
                gathering.clear(clocks.slot(u, w));
            }
        }
    }

    /** Releases the unit of a request, and those that step together with it. */
    private void releaseAll(Request e) {
        for (int u = begin(e.unit); u < end(e.unit); u++) {
            release(e, u);
        }
    }

    /** Replies to all workers that wait for a unit and may continue. */
    private void release(Request e, int unit) {
        if (!isReady(unit) || e.status != Message.DONE) {
            return;
        }
        long furthest = Long.MAX_VALUE;
        if (plan.consistency() instanceof Consistency.Stale stale) {
            long slowest = clocks.slowest(unit);
            furthest = slowest > Long.MAX_VALUE - stale.bound() ? Long.MAX_VALUE : slowest + stale.bound();
        }
        float[] others = null;
        for (int w = 0; w < plan.workers(); w++) {
            int slot = clocks.slot(unit, w);
            if (!clocks.waiting[slot] || clocks.clocks[slot] > furthest) {
                continue;
            }
            clocks.waiting[slot] = false;
            if (unit == e.unit) {
                e.reply(w, clocks.sessions[slot], clocks.counts[slot] - 1);
            } else {
                if (others == null) {
                    others = new float[lengthOf(unit)];
                    weights.get(unit, 0, others);
                }
                e.more.add(new Request.Reply(w, clocks.sessions[slot], clocks.counts[slot] - 1, unit, others));
            }
        }
        if (unit == e.unit && e.replies > 0) {
            put(e, 0);
        }
    }

    /** Puts weights, or a slot of the rule's state, into the reply. */
    private void put(Request e, int which) {
        if (e.unit < blocks && isReady(e.unit)) {
            e.weightsCount = lengthOf(e.unit);
            weights.get(e.unit, which, e.weights);
        }
    }

    /** Returns whether {@code which} is valid: 0 for weights, from 1 on a slot of the rule's state. */
    boolean keeps(int unit, int which) {
        return which >= 0 && which <= weights.slots(unit);
    }

    private void keep(Request e) {
        if (!isReady(e.unit)) {
            weights.set(e.unit, e.slot, e.gradient);
            weights.versions[e.unit] = e.steps;
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
        return weights.isFilled() || Arrays.stream(tables).anyMatch(table -> table.size() > 0);
    }

    /** Applies a record of the journal. */
    void replay(ByteBuffer r) {
        int unit = r.getInt(Journal.UNIT);
        int count = r.getInt(Journal.COUNT);
        int kind = r.getInt(Journal.KIND);
        boolean steps = kind == Journal.GRADIENT || kind == Journal.NO_GRADIENT;
        r.position(Journal.RECORD_HEADER);
        for (int i = r.getInt(Journal.MOVED_COUNT); i > 0; i--) {
            clocks.read(unit, steps ? begin(unit) : unit, steps ? end(unit) : unit + 1, r);
        }
        int at = r.position();
        switch (kind) {
            case Journal.GRADIENT -> weights.step(unit, JournalReader.floats(r, at, count), r.getDouble(Journal.RATE));
            case Journal.WEIGHTS -> {
                weights.set(unit, 0, JournalReader.floats(r, at, count));
                weights.ready[unit] = true;
            }
            case Journal.KEPT -> {
                weights.set(unit, r.getInt(Journal.STRIDE), JournalReader.floats(r, at, count));
                weights.versions[unit] = (long) r.getDouble(Journal.RATE);
            }
            case Journal.ROWS -> {
                int stride = r.getInt(Journal.STRIDE);
                float[] rows = JournalReader.floats(r, at + 8 * count, count * stride);
                for (int i = 0; i < count; i++) {
                    tables[unit - blocks].restore(r.getLong(at + 8 * i), rows, i * stride,
                            r.getLong(Journal.SEQUENCE));
                }
                if (counted != null) {
                    counted[unit - blocks] = (long) r.getDouble(Journal.RATE);
                }
            }
            case Journal.ROWS_READY -> hasRows = true;
            default -> { }
        }
        sequence = r.getLong(Journal.SEQUENCE);
    }

    /** Removes rows of a checkpoint that was not read to its end; checks that complete tables have lost no rows. */
    void checkRows() {
        for (int t = 0; t < tables.length; t++) {
            if (hasRows && counted != null) {
                tables[t].requireRows(counted[t]);
            } else if (!hasRows && tables[t].size() > 0) {
                tables[t].clear();
            }
        }
    }

    /** Writes a snapshot, which replaces the previous one. */
    void save(Path path) throws IOException {
        for (EmbeddingRows table : tables) {
            table.flush(sequence);
        }
        try (CheckedFile out = CheckedFile.write(path)) {
            SnapshotHeader.write(out, encodedPlan, server);
            out.putLong(sequence);
            out.putInt(hasRows ? 1 : 0);
            for (EmbeddingRows table : tables) {
                // Until all rows of a checkpoint have arrived, reading it again may begin with an empty table.
                out.putLong(hasRows ? table.rows() : 0);
            }
            for (int slot = 0; slot < clocks.states.length; slot++) {
                out.putInt(clocks.states[slot]);
            }
            out.put(clocks.sessions);
            out.put(clocks.counts);
            out.put(clocks.clocks);
            out.put(Arrays.copyOf(weights.versions, units));
            weights.save(out);
            out.commit();
        }
    }

    /** Reads the snapshot that {@link #save} wrote, if it exists. */
    void load(Path path) throws IOException {
        if (!Files.exists(path)) {
            return;
        }
        try (CheckedFile in = CheckedFile.read(path)) {
            boolean counts = SnapshotHeader.read(path, in, plan, server);
            sequence = in.getLong();
            hasRows = in.getInt() == 1;
            if (counted != null && counts) {
                in.get(counted);
            } else {
                counted = null;
            }
            for (int slot = 0; slot < clocks.states.length; slot++) {
                clocks.states[slot] = (byte) in.getInt();
            }
            in.get(clocks.sessions);
            in.get(clocks.counts);
            in.get(clocks.clocks);
            long[] versions = new long[units];
            in.get(versions);
            System.arraycopy(versions, 0, weights.versions, 0, blocks);
            weights.load(in);
            in.verify();
        }
    }

    @Override
    public void close() {
        weights.close();
        for (EmbeddingRows table : tables) {
            table.close();
        }
    }
}
