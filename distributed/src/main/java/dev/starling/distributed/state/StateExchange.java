package dev.starling.distributed.state;

import dev.starling.distributed.Collectives;
import dev.starling.distributed.DistributedException;
import dev.starling.nn.Parameter;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Update;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.Map;

/**
 * Makes the training states of all ranks that of the one that is furthest, without a file: at the start, when others
 * were lost, when somebody joins.
 */
public final class StateExchange {
    private static final long ALIGNMENT = 64;

    private StateExchange() { }

    /**
     * Makes all states alike. Collective. Ranks that have taken steps go before those that are fresh; of these, those
     * that have taken most. If there is none but fresh ones, it is rank 0's. Ends with {@link TrainingState#restore} on
     * every rank, also where nothing changes. A rank that fails here keeps the state that it had.
     *
     * @param rank of this process
     * @param fresh whether this process has not taken part in the run yet
     * @return the rank whose state it is now
     * @throws DistributedException if ranks train different models
     */
    public static int alike(Collectives collectives, int rank, TrainingState state, boolean fresh) {
        byte[][] said = collectives.exchange(Standing.of(state, fresh).encode());
        Standing[] standings = new Standing[said.length];
        for (int r = 0; r < said.length; r++) {
            standings[r] = Standing.decode(said[r], r);
            standings[r].requireLike(standings[0], r, state);
        }
        int source = furthest(standings);
        Standing best = standings[source];
        if (!Arrays.stream(standings).allMatch(s -> !s.fresh() && s.isAt(best))) {
            transfer(collectives, rank, state, source);
        }
        state.restore(rank == source ? state.notes() : best.notes());
        return source;
    }

    private static int furthest(Standing[] standings) {
        int best = 0;
        for (int r = 1; r < standings.length; r++) {
            if (standings[r].isAheadOf(standings[best])) {
                best = r;
            }
        }
        return best;
    }

    /** Sends all tensors by way of memory of their size, so that a failure in the midst leaves every state whole. */
    private static void transfer(Collectives collectives, int rank, TrainingState state, int source) {
        Map<String, Parameter> tensors = state.tensors();
        long bytes = 0;
        for (Parameter p : tensors.values()) {
            bytes += room(p);
        }
        try (Arena arena = Arena.ofConfined(); Scope scope = Scope.open("state")) {
            MemorySegment all = arena.allocate(Math.max(ALIGNMENT, bytes), ALIGNMENT);
            if (rank == source) {
                long at = 0;
                for (Parameter p : tensors.values()) {
                    Tensor.apply(new Update.Assign(), view(all, at, p), p.value().to(Device.cpu()));
                    at += room(p);
                }
            }
            collectives.broadcast(all, source);
            if (rank != source) {
                long at = 0;
                for (Parameter p : tensors.values()) {
                    p.set(view(all, at, p));
                    at += room(p);
                }
            }
        }
    }

    private static long room(Parameter p) {
        return (p.value().spec().bytes() + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }

    private static Tensor view(MemorySegment all, long at, Parameter p) {
        return Tensor.wrap(all.asSlice(at, p.value().spec().bytes()), p.value().dtype(), p.shape().dims());
    }
}
