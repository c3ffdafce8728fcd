package dev.starling.distributed.state;

import dev.starling.distributed.Collectives;
import dev.starling.nn.Parameter;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Update;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.Map;

/**
 * Replaces the training states of all ranks by the most advanced one, without a file: at the start, after the loss of
 * members, and when a process joins.
 */
public final class StateExchange {
    private static final long ALIGNMENT = 64;

    private StateExchange() { }

    /**
     * Replaces all states by the most advanced one. Collective. Ranks that have taken part in the run precede fresh
     * ones; of the former, the rank with the most steps is chosen. If all ranks are fresh, the state of rank 0 is
     * chosen. Ends with {@link TrainingState#restore} on every rank, even where nothing changes. A rank that fails here
     * keeps its previous state.
     *
     * <p>{@link SettingsExchange} must precede: all states have the same tensors.
     *
     * @param rank of this process
     * @param fresh whether this process has not taken part in the run yet
     * @param origin identifies the last membership epoch in which this process had the same state as all ranks
     * @return the rank whose state was chosen
     */
    public static int synchronize(Collectives collectives, int rank, TrainingState state, boolean fresh,
            long origin) {
        List<StateSummary> summaries = StateSummary.CODEC.exchange(collectives,
                StateSummary.of(state, fresh, origin));
        int source = 0;
        for (int r = 1; r < summaries.size(); r++) {
            source = summaries.get(r).isAheadOf(summaries.get(source)) ? r : source;
        }
        StateSummary best = summaries.get(source);
        if (!summaries.stream().allMatch(s -> s.isEqualTo(best))) {
            transfer(collectives, rank, state, source);
        }
        state.restore(rank == source ? state.notes() : best.notes());
        return source;
    }

    /**
     * Sends all tensors through one buffer of their total size, so that a failure during the transfer leaves every
     * state intact.
     */
    private static void transfer(Collectives collectives, int rank, TrainingState state, int source) {
        Map<String, Parameter> tensors = state.tensors();
        long bytes = 0;
        for (Parameter p : tensors.values()) {
            bytes += alignedBytes(p);
        }
        try (Arena arena = Arena.ofConfined(); Scope scope = Scope.open("state")) {
            MemorySegment all = arena.allocate(Math.max(ALIGNMENT, bytes), ALIGNMENT);
            if (rank == source) {
                long at = 0;
                for (Parameter p : tensors.values()) {
                    Tensor.apply(new Update.Assign(), view(all, at, p), p.value().to(Device.cpu()));
                    at += alignedBytes(p);
                }
            }
            collectives.broadcast(all, source);
            if (rank != source) {
                long at = 0;
                for (Parameter p : tensors.values()) {
                    p.set(view(all, at, p));
                    at += alignedBytes(p);
                }
            }
        }
    }

    private static long alignedBytes(Parameter p) {
        return (p.value().spec().bytes() + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }

    private static Tensor view(MemorySegment all, long at, Parameter p) {
        return Tensor.wrap(all.asSlice(at, p.value().spec().bytes()), p.value().dtype(), p.shape().dims());
    }
}
