package dev.starling.samples.train;

import dev.starling.distributed.Quorum;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.coordinator.CoordinatorConfig;
import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ring.RingAllReduce;
import dev.starling.transport.Protection;
import dev.starling.transport.TransportConfig;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Locale;
import picocli.CommandLine.Option;

/** Command-line options of training with several workers. */
final class TeamOptions {
    /** Seconds: a millisecond, and a year of 365 days. */
    private static final double MIN_SILENCE = 0.001;
    private static final int MAX_SILENCE = 31_536_000;

    /** How processes train together. */
    enum Strategy {
        /** Each worker computes a part of every batch, and gradients are added up. */
        RING,
        /** Workers send gradients to servers, which keep the weights. */
        PS,
        /** Each worker trains on its own data and mixes in the weights of others. */
        GOSSIP
    }

    @Option(names = "--workers", paramLabel = "N", description = "Train with N processes (or threads).")
    private Integer workers;

    @Option(names = "--strategy", paramLabel = "S",
            description = "ring, ps (parameter servers) or gossip (default: ring).")
    Strategy strategy;

    @Option(names = "--transport", paramLabel = "T", defaultValue = TransportConfig.AUTOMATIC,
            description = "aeron, tcp, ucx, or auto, which is aeron within a host and tcp between hosts; local for "
                    + "threads (default: ${DEFAULT-VALUE}).")
    String transport;

    @Option(names = "--protection", paramLabel = "P", description = "Of frames between hosts over aeron and tcp: "
            + "encrypted, authenticated or plain, the same in all processes (default: encrypted).")
    Protection protection;

    @Option(names = "--elastic",
            description = "ring: continue with the other workers when one fails. gossip and ps always do, except ps "
                    + "--staleness 0, which cannot.")
    boolean elastic;

    @Option(names = "--restarts", paramLabel = "N",
            description = "Total number of times that failed processes are restarted; makes ring elastic. Not for ps "
                    + "--staleness 0.")
    int restarts;

    @Option(names = "--join", description = "Join workers that train already: end with an error if none of them, and "
            + "no coordinator, answers within the time of --silence, instead of waiting for their start.")
    boolean join;

    @Option(names = "--min-workers", paramLabel = "N",
            description = "Number of workers with which the others may continue after losses (default: 1).")
    Integer minWorkers;

    @Option(names = "--max-workers", paramLabel = "N", description = "Maximum number of workers; further ones wait as "
            + "spares until one leaves or is lost (default: no limit).")
    Integer maxWorkers;

    @Option(names = "--quorum", paramLabel = "Q", description = "How many of the last workers and servers the others "
            + "need to continue after losses: majority, none or a number (default: majority).")
    String quorum;

    @Option(names = "--half", description = "ring: send gradients as bf16, as --compress bf16 does.")
    private boolean half;

    @Option(names = "--compress", paramLabel = "C", converter = Compression.Converter.class, description = "ring: send "
            + "gradients as bf16, or topk=FRACTION of them, or factors of rank R by powersgd=R.")
    private Compression compression;

    @Option(names = "--proportional", description = "ring, and ps with --staleness 0: divide "
            + "batches by measured speed.")
    boolean proportional;

    @Option(names = "--servers", paramLabel = "K",
            description = "ps: number of server processes (default: 1).")
    Integer servers;

    @Option(names = "--staleness", paramLabel = "S", description = "ps: number of steps by which a worker may be ahead "
            + "of the slowest; 0 for synchronous steps (default: workers do not wait).")
    Integer staleness;

    @Option(names = "--server-data", paramLabel = "DIR",
            description = "ps: directory where servers store their state, to resume from it (default: only in memory).")
    Path serverData;

    @Option(names = "--logs", paramLabel = "DIR",
            description = "Also write the output of each process to DIR/rank-N.log.")
    Path logs;

    @Option(names = "--silence", paramLabel = "S", defaultValue = "10",
            description = "Seconds without a heartbeat until a process is lost (default: ${DEFAULT-VALUE}).")
    double silenceSeconds;

    /** Returns the protection of frames between hosts. */
    Protection protection() {
        return protection == null ? Protection.ENCRYPTED : protection;
    }

    boolean isRequested() {
        return workers != null || strategy != null;
    }

    /** Returns the number of workers, 0 to train alone. */
    int workers() {
        return workers == null ? 0 : workers;
    }

    Strategy strategy() {
        return strategy == null ? Strategy.RING : strategy;
    }

    int servers() {
        return strategy() != Strategy.PS ? 0 : servers == null ? 1 : servers;
    }

    /** Returns the strategy as it is written on the command line. */
    String name() {
        return "--strategy " + strategy().name().toLowerCase(Locale.ROOT)
                + (staleness == null || strategy() != Strategy.PS ? "" : " --staleness " + staleness);
    }

    /** Returns the consistency of parameter servers. */
    Consistency consistency() {
        return staleness == null ? new Consistency.Asynchronous()
                : staleness == 0 ? new Consistency.Synchronous() : new Consistency.Stale(staleness);
    }

    /** Returns whether all workers are at the same step, each with its part of every batch. */
    boolean sharesBatches() {
        return strategy() == Strategy.RING || isSynchronous();
    }

    /** Returns whether parameter servers perform a step only with the gradients of all workers. */
    boolean isSynchronous() {
        return strategy() == Strategy.PS && staleness != null && staleness == 0;
    }

    /** Returns whether the other workers continue when one is lost. */
    boolean survives() {
        return elastic || restarts > 0 || strategy() == Strategy.GOSSIP
                || strategy() == Strategy.PS && !isSynchronous();
    }

    Coordinator.OnLoss onLoss() {
        return survives() ? Coordinator.OnLoss.REFORM : Coordinator.OnLoss.END;
    }

    private int min() {
        return minWorkers == null ? 1 : minWorkers;
    }

    /** Returns an option that says when the others continue after a loss, or {@code null} if there is none. */
    String rulesOption() {
        return quorum != null ? "--quorum" : minWorkers != null ? "--min-workers"
                : maxWorkers != null ? "--max-workers" : null;
    }

    /**
     * Returns the rules of a group of workers and servers.
     *
     * @throws IllegalArgumentException if options contradict each other
     */
    CoordinatorConfig rules(int world) {
        CoordinatorConfig rules = CoordinatorConfig.of(world, onLoss()).minMembers(Math.min(world, min()
                + servers())).quorum(quorum == null ? new Quorum.Majority() : Quorum.parse(quorum));
        return maxWorkers == null ? rules : rules.maxMembers(maxWorkers + servers());
    }

    /** Returns how gradients are compressed, or {@code null}. */
    Compression compression() {
        return half ? RingAllReduce.Builder::halfPrecision : compression;
    }

    /** Returns the option that compresses gradients, or {@code null}. */
    String compressionOption() {
        return half ? "--half" : compression == null ? null : "--compress";
    }

    /** Returns the message on an option out of its range, or {@code null}. */
    String badValue() {
        if (workers != null && workers < 1) {
            return "--workers must be positive, got " + workers + "; omit it to train alone";
        }
        if (servers != null && servers < 1) {
            return "--servers must be positive, got " + servers;
        }
        if (staleness != null && staleness < 0) {
            return "--staleness must be 0 for synchronous steps, or more, got " + staleness
                    + ": omit it for asynchronous steps";
        }
        if (restarts < 0) {
            return "--restarts must not be negative, got " + restarts;
        }
        if (min() < 1 || workers != null && (min() > workers || maxWorkers != null && maxWorkers < workers)) {
            return "1 <= --min-workers <= --workers <= --max-workers must hold, got " + min() + ", " + workers
                    + " and " + (maxWorkers == null ? "no limit" : maxWorkers);
        }
        try {
            Quorum.parse(quorum == null ? "majority" : quorum);
        } catch (IllegalArgumentException e) {
            return "--quorum: " + e.getMessage();
        }
        if (half && compression != null) {
            return "--half is --compress bf16: omit it, or --compress";
        }
        return silenceSeconds >= MIN_SILENCE && silenceSeconds <= MAX_SILENCE ? null : "--silence must be from "
                + MIN_SILENCE + " to " + MAX_SILENCE + " seconds, got " + silenceSeconds;
    }

    Duration livenessTimeout() {
        return Duration.ofMillis(Math.round(silenceSeconds * 1000));
    }
}
