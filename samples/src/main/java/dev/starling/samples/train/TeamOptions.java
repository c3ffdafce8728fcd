package dev.starling.samples.train;

import dev.starling.distributed.Coordinator;
import dev.starling.distributed.ps.Consistency;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Locale;
import picocli.CommandLine.Option;

/** What can be said on the command line about training together. */
final class TeamOptions {
    /** How processes train together. */
    enum Strategy {
        /** Each takes a part of every batch, and gradients are added up. */
        RING,
        /** Gradients go to servers, which hold the weights. */
        PS,
        /** Each trains on data of its own and mixes in others' weights. */
        GOSSIP
    }

    @Option(names = "--workers", paramLabel = "N", description = "Train as N processes (or threads) together.")
    int workers;

    @Option(names = "--strategy", paramLabel = "S",
            description = "ring, ps (parameter servers) or gossip (default: ring).")
    Strategy strategy;

    @Option(names = "--transport", paramLabel = "T", defaultValue = "aeron",
            description = "aeron or ucx between processes, or local: threads (default: ${DEFAULT-VALUE}).")
    String transport;

    @Option(names = "--elastic",
            description = "ring: go on with those that are left when one fails. gossip and ps always do, except ps "
                    + "--staleness 0, which cannot.")
    boolean elastic;

    @Option(names = "--restarts", paramLabel = "N",
            description = "How often, in all, a process that failed is started again; makes ring elastic. Not for ps "
                    + "--staleness 0.")
    int restarts;

    @Option(names = "--half", description = "ring: send gradients as bf16.")
    boolean half;

    @Option(names = "--proportional", description = "ring, and ps with --staleness 0: divide "
            + "batches by measured speed.")
    boolean proportional;

    @Option(names = "--servers", paramLabel = "K",
            description = "ps: number of servers, processes of their own (default: 1).")
    Integer servers;

    @Option(names = "--staleness", paramLabel = "S", description = "ps: how many steps a worker may be ahead of the "
            + "slowest; 0 takes steps together, without it nobody waits.")
    Integer staleness;

    @Option(names = "--server-data", paramLabel = "DIR",
            description = "ps: where servers keep what they hold, to go on from there; else it is in memory alone.")
    Path serverData;

    @Option(names = "--silence", paramLabel = "S", defaultValue = "10",
            description = "Seconds without a sign of life until a process is lost (default: ${DEFAULT-VALUE}).")
    double silenceSeconds;

    boolean isAsked() {
        return workers > 0 || strategy != null;
    }

    Strategy strategy() {
        return strategy == null ? Strategy.RING : strategy;
    }

    int servers() {
        return strategy() != Strategy.PS ? 0 : servers == null ? 1 : servers;
    }

    /** Returns the strategy as it is said on the command line. */
    String said() {
        return "--strategy " + strategy().name().toLowerCase(Locale.ROOT)
                + (staleness == null || strategy() != Strategy.PS ? "" : " --staleness " + staleness);
    }

    /** Returns how far workers of parameter servers may be apart. */
    Consistency consistency() {
        return staleness == null ? new Consistency.Asynchronous()
                : staleness == 0 ? new Consistency.Synchronous() : new Consistency.Stale(staleness);
    }

    /** Returns whether all workers are at the same step, each with its part of every batch. */
    boolean sharesBatches() {
        return strategy() == Strategy.RING || isSynchronous();
    }

    /** Returns whether parameter servers take a step when they have the gradients of all workers. */
    boolean isSynchronous() {
        return strategy() == Strategy.PS && staleness != null && staleness == 0;
    }

    /** Returns whether the others go on when a worker is lost. */
    boolean survives() {
        return elastic || restarts > 0 || strategy() == Strategy.GOSSIP
                || strategy() == Strategy.PS && !isSynchronous();
    }

    Coordinator.OnLoss onLoss() {
        return survives() ? Coordinator.OnLoss.REFORM : Coordinator.OnLoss.END;
    }

    Duration silence() {
        return Duration.ofMillis(Math.round(silenceSeconds * 1000));
    }
}
