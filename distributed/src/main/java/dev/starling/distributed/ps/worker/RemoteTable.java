package dev.starling.distributed.ps.worker;

import dev.starling.distributed.ps.wire.Message;
import dev.starling.distributed.ps.wire.Plan;
import dev.starling.distributed.ps.wire.RowSum;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.List;

/** A worker's access to a table: distributes row requests among servers, and sums the gradients of a step. */
public final class RemoteTable implements AutoCloseable {
    private final Plan plan;
    private final Plan.Table table;
    /** By server. */
    private final List<TablePart> parts;
    private final Client client;
    /** The rows pulled last. */
    private final RowSum pulled = new RowSum();
    private final RowSum sum = new RowSum();
    /** Rows in transit: pulled rows in the order of {@code pulled}, or pushed gradients in that of {@code sum}. */
    private Arena arena = Arena.ofShared();
    private MemorySegment memory = arena.allocate(64, 64);
    private float[] scratch = {};

    /** Adds a table of a plan to the client's links, after the blocks. */
    public RemoteTable(Plan plan, int number, Client client) {
        this.plan = plan;
        this.client = client;
        table = plan.tables().get(number);
        parts = client.partsOf(plan, table);
        sum.begin(table.width());
    }

    /**
     * Fetches each row once.
     *
     * @param positions receives the index of each id's row in the result
     * @return {@code [keys(), width]}, valid until the next call
     */
    public Tensor pull(long[] ids, long[] positions) {
        pulled.begin(0);
        for (int i = 0; i < ids.length; i++) {
            positions[i] = pulled.numberOf(check(ids, i));
        }
        distribute(pulled.keys(), pulled.size(), 0);
        client.ask(parts, Message.PULL_ROWS);
        client.await("for rows of table " + table.name());
        return Tensor.wrap(memory.asSlice(0, 4L * pulled.size() * table.width()), DType.F32, pulled.size(),
                table.width());
    }

    private long check(long[] ids, int at) {
        if (ids[at] < 0) {
            throw TensorException.argument("embedding table", "ids of table " + table.name()
                    + " must be >= 0, got " + ids[at] + " at " + at, "number rows from 0, or hash to 63 bits");
        }
        return ids[at];
    }

    /** Returns the ids of the rows fetched last. */
    public long[] keys() {
        return Arrays.copyOf(pulled.keys(), pulled.size());
    }

    /** Assigns each key to the part of the server that holds it. */
    private void distribute(long[] all, int n, double rate) {
        long bytes = 4L * n * table.width();
        if (bytes > Integer.MAX_VALUE) {
            throw TensorException.argument("embedding table", "the rows of table " + table.name() + " in one batch "
                    + "must have less than 2 GiB, got " + n + " rows of " + table.width() + " elements",
                    "use smaller batches");
        }
        if (memory.byteSize() < bytes) {
            // The caller has copied the rows fetched before, so the old memory is unused.
            arena.close();
            arena = Arena.ofShared();
            memory = arena.allocate(Math.clamp(2L * memory.byteSize(), bytes, Integer.MAX_VALUE), 64);
        }
        for (TablePart part : parts) {
            part.begin(memory, rate);
        }
        for (int i = 0; i < n; i++) {
            parts.get(plan.serverOf(all[i])).add(all[i], i);
        }
    }

    /** Adds gradients to those of this step; each id of several occurrences gets the sum. */
    public void add(long[] ids, int n, Tensor gradients) {
        for (int i = 0; i < n; i++) {
            check(ids, i);
        }
        int floats = Math.multiplyExact(n, table.width());
        if (scratch.length < floats) {
            scratch = new float[floats];
        }
        try (Scope scope = Scope.open("rows")) {
            Tensor dense = gradients.to(Device.cpu()).to(DType.F32).contiguous();
            MemorySegment.copy(dense.readOnlySegment(), ValueLayout.JAVA_FLOAT, 0, scratch, 0, floats);
        }
        sum.add(ids, n, scratch, 1);
    }

    /** Prepares the summed gradients for a push, and starts the sums of the next step. */
    public List<TablePart> gather(double rate) {
        distribute(sum.keys(), sum.size(), rate);
        MemorySegment.copy(sum.sums(), 0, memory, ValueLayout.JAVA_FLOAT, 0, sum.size() * table.width());
        sum.begin(table.width());
        return parts;
    }

    /** Drops the gradients of a step that has failed. */
    public void dropGradients() {
        sum.begin(table.width());
    }

    public List<TablePart> parts() {
        return parts;
    }

    @Override
    public void close() {
        arena.close();
    }
}
