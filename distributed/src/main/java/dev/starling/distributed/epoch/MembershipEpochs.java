package dev.starling.distributed.epoch;

import dev.starling.distributed.Collectives;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.Member;
import dev.starling.distributed.MembershipChangedException;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.View;
import dev.starling.distributed.state.SettingsExchange;
import dev.starling.distributed.state.StateExchange;
import dev.starling.nn.train.RunSettings;
import dev.starling.nn.train.SettingsMismatchException;
import dev.starling.nn.train.TrainingState;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.function.Consumer;

/**
 * Carries a synchronous strategy, of this library or of a user's own, from one membership epoch to the next. At the
 * start, after a loss, and when a process joins, all ranks adopt the state of the most advanced one, and the strategy
 * creates what it needs in the new epoch, such as {@link dev.starling.distributed.bucket.Buckets}. All collective calls
 * of the strategy go through {@link #run}:
 *
 * <pre>{@code
 * public void start(TrainingState state) {
 *     epochs = MembershipEpochs.of(group, true, this::begin, this::close);
 *     epochs.start(state);
 * }
 *
 * public Step beforeStep(Tensor[] gradients) {
 *     return epochs.run(() -> buckets.sum(gradients)) ? Step.LOCAL : Step.RESTORED;
 * }
 *
 * public void afterStep() {
 *     epochs.run(buckets::next);
 * }
 * }</pre>
 *
 * <p>If the strategy is not elastic, a change of members ends the run with an exception that names the lost rank.
 * Confined to the training thread.
 */
public final class MembershipEpochs {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");

    private final Group group;
    private final boolean elastic;
    private final Consumer<Collectives> begin;
    private final Runnable end;
    /** Set by {@link #start}. */
    @SuppressWarnings("NullAway.Init")
    private TrainingState state;
    /** Set by {@link #start}. */
    @SuppressWarnings("NullAway.Init")
    private RunSettings settings;
    private int rank;
    private int world;
    private boolean fresh = true;
    /** Identifies the last epoch at whose start all ranks had the same state. */
    private long origin;

    private MembershipEpochs(Group group, boolean elastic, Consumer<Collectives> begin, Runnable end) {
        this.group = group;
        this.elastic = elastic;
        this.begin = begin;
        this.end = end;
    }

    /**
     * Creates the epochs of a strategy.
     *
     * @param elastic whether training continues after a change of members; the coordinator has to re-form the group,
     *     too
     * @param begin allocates what the strategy needs in an epoch, when all ranks have the same state. Gets the
     *     collectives of the epoch, and must use no others: the group may be in another epoch already. Collective
     * @param end releases that. Also called where {@code begin} has failed, or has not been called yet
     */
    public static MembershipEpochs of(Group group, boolean elastic, Consumer<Collectives> begin, Runnable end) {
        return new MembershipEpochs(group, elastic, begin, end);
    }

    /** Begins the first epoch. To be called by the strategy's {@code start}. Collective; waits. */
    public void start(TrainingState newState) {
        start(newState, newState.settings());
    }

    /**
     * As {@link #start(TrainingState)}, with the settings of the run and of the strategy. At the start of each epoch,
     * all ranks must have the same; a process that joins with others ends, and the members continue without it.
     *
     * @throws SettingsMismatchException on all ranks that begin, if their settings differ
     */
    public void start(TrainingState newState, RunSettings commonSettings) {
        state = newState;
        settings = commonSettings;
        // What an earlier run has left does not count in this one.
        fresh = true;
        origin = 0;
        form();
    }

    /**
     * Makes collective calls.
     *
     * @return {@code true} if they were made; {@code false} if the members have changed meanwhile: all ranks then have
     *     the same state again, from which training continues, and the strategy is in a new epoch
     * @throws PeerLostException or {@link MembershipChangedException} if the strategy is not elastic
     */
    public boolean run(Runnable calls) {
        try {
            calls.run();
            return true;
        } catch (PeerLostException | MembershipChangedException e) {
            awaitNext(e);
            form();
            return false;
        }
    }

    /** Begins the present epoch, or the next if the present one ends meanwhile. */
    private void form() {
        while (true) {
            try {
                // Before the rank: if the epoch ends in between, these collectives fail.
                Collectives collectives = group.collectives();
                View view = group.view();
                rank = group.rank();
                world = group.world();
                compareSettings(collectives);
                if (fresh && rank == 0) {
                    // A different process may have been rank 0 when training began.
                    state.resume();
                }
                int source = StateExchange.synchronize(collectives, rank, state, fresh, origin);
                origin = origin(view);
                LOG.log(Level.DEBUG, "rank {0} of {1} begins at step {2} with the state of rank {3}", rank, world,
                        state.step(), source);
                fresh = false;
                begin.accept(collectives);
                return;
            } catch (PeerLostException | MembershipChangedException e) {
                awaitNext(e);
            }
        }
    }

    /** Returns a number for an epoch; groups that have divided may have given it the same number. */
    private static long origin(View view) {
        long origin = view.epoch();
        for (Member member : view.members()) {
            origin = origin * 31 + member.id();
        }
        return origin;
    }

    /** Ranks that have trained together have the same settings: a difference is that of a process that has joined. */
    private void compareSettings(Collectives collectives) {
        Duration timeout = group.config().timeout();
        try {
            SettingsExchange.requireSame(collectives, settings, timeout);
        } catch (SettingsMismatchException e) {
            if (fresh) {
                throw e;
            }
            LOG.log(Level.WARNING, "rank {0} of {1}, at step {2}: {3}; continues without the process that joined", rank,
                    world, state.step(), e.getMessage());
            // Fails when that process leaves, and thereby begins the next membership epoch.
            collectives.barrier().await(timeout);
            throw e;
        }
    }

    private void awaitNext(DistributedException cause) {
        end.run();
        if (!elastic) {
            throw cause;
        }
        LOG.log(Level.INFO, "rank {0} of {1}, at step {2}: {3}; continues with the remaining ranks", rank, world,
                state.step(), cause.getMessage());
        group.reform(group.config().timeout());
    }
}
