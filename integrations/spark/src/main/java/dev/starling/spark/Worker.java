package dev.starling.spark;

import dev.starling.distributed.Group;
import dev.starling.distributed.gossip.Gossip;
import dev.starling.distributed.ps.ParameterServer;
import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ring.RingAllReduce;
import dev.starling.nn.Layer;
import dev.starling.nn.checkpoint.SafeTensors;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.SpillingRows;
import dev.starling.nn.energy.GreedyTraining;
import dev.starling.nn.model.ModelDescription;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.search.Search.Recipe;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.EpochReport;
import dev.starling.nn.train.Metric;
import dev.starling.nn.train.Progress;
import dev.starling.nn.train.RemoteRun;
import dev.starling.nn.train.Trainer;
import dev.starling.nn.train.TrainingListener;
import dev.starling.tensor.Generator;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.TaskContext;

/** Trains on the rows of one task. Confined to the task's thread. */
final class Worker implements TrainingListener {
    private static final long REPORT_INTERVAL_NS = 200_000_000;
    /** Number of ranks that return weights if elastic, because rank 0 may be lost after the last step. */
    private static final int RETURNING = 2;

    private final TrainingJob job;
    private final TaskContext context;
    private final Group group;
    private final SpillingRows rows;
    private final SpillingRows heldOut;
    private final int[] sizes;
    private final Path directory;
    private final int partition;
    /** {@code null} if this worker saves no checkpoints. */
    private SharedCheckpoints checkpoints;
    private long reportedNs;
    private long change;
    private long steppedNs;

    Worker(TrainingJob job, TaskContext context, Group group, SpillingRows rows, SpillingRows heldOut, int[] sizes,
            Path directory) {
        this.job = job;
        this.context = context;
        this.group = group;
        this.rows = rows;
        this.heldOut = heldOut;
        this.sizes = sizes;
        this.directory = directory;
        partition = context.partitionId();
    }

    /** Trains; returns the weights on rank 0, and on rank 1 if elastic, else {@code null}. */
    byte[] train() {
        ModelDescription description = job.model();
        try (DistributionStrategy strategy = strategy();
                Layer model = description.build(Thread.currentThread().getContextClassLoader(),
                        Generator.seeded(job.seed()));
                DataLoader data = loader();
                DataLoader measured = DataLoader.of(heldOut).batchSize(job.batchSize()).workers(0).build()) {
            GreedyTraining greedy = job.pretraining() == 0 ? null
                    : ((DeepBelief.Network) model).pretrain(job.pretraining(), job.epochs());
            try (Optimizer optimizer = job.optimizer().over(model, steps())) {
                Trainer.Builder trainer = Trainer.of(model, greedy == null ? job.loss().make() : greedy.loss(),
                                optimizer).data(data).epochs(job.epochs()).seed(job.seed()).strategy(strategy)
                        .listeners(this).listeners(job.listeners().stream().map(l -> l.make(model, group.rank()))
                                .toArray(TrainingListener[]::new))
                        .metrics(greedy != null ? new Metric[] {greedy.metric()}
                                : job.metrics().stream().map(Recipe::make).toArray(Metric[]::new));
                if (greedy != null) {
                    trainer.listeners(greedy);
                }
                if (job.heldOut() != null) {
                    trainer.heldOut(measured);
                }
                if (job.checkpoints() != null) {
                    trainer.checkpoints(local(), job.everySteps()).resume();
                }
                trainer.build().run();
            }
            if (group.rank() > 0 && (job.elastic() == null || group.rank() >= RETURNING)) {
                return null;
            }
            Map<String, String> texts = new LinkedHashMap<>(description.metadata());
            texts.putAll(job.columns().metadata());
            return SafeTensors.bytes(model.state(), texts);
        }
    }

    /** Returns the local directory of checkpoints, with the shared ones on ranks that read or write them. */
    private Path local() {
        try {
            Path local = Files.createDirectories(directory.resolve("checkpoints"));
            if (group.rank() == 0 || job.elastic() != null) {
                checkpoints = new SharedCheckpoints(job.checkpoints(), job.hadoop().value(), local);
                checkpoints.fetch();
            }
            return local;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private DataLoader loader() {
        DataLoader.Builder loader = DataLoader.of(rows).batchSize(job.batchSize()).workers(0)
                .seed(job.seed());
        return (job.shuffled() ? loader.shuffle() : loader).build();
    }

    /** Returns the number of steps of an epoch. */
    private long stepsPerEpoch() {
        long shared = job.strategy().isSynchronous() ? Arrays.stream(sizes).asLongStream().sum() : sizes[partition];
        return (shared + job.batchSize() - 1) / job.batchSize();
    }

    private long steps() {
        return Math.max(2, job.epochs() * stepsPerEpoch());
    }

    private DistributionStrategy strategy() {
        return switch (job.strategy()) {
            case Strategy.Ring _ -> {
                RingAllReduce.Builder ring = RingAllReduce.over(group).ownData();
                yield (job.elastic() == null ? ring : ring.elastic()).build();
            }
            case Strategy.Gossip gossip -> Gossip.onOwnData(group, gossip.period() > 0 ? gossip.period()
                    : Math.toIntExact(Math.max(1, stepsPerEpoch())), sizes[partition]);
            case Strategy.Servers servers -> ParameterServer.worker(group, partition).workers(job.workers())
                    .servers(servers.servers()).ownData().consistency(switch (servers.staleness()) {
                        case -1 -> new Consistency.Asynchronous();
                        case 0 -> new Consistency.Synchronous();
                        default -> new Consistency.Stale(servers.staleness());
                    }).build();
        };
    }

    private RunNotes.Step step(Progress progress) {
        return new RunNotes.Step(job.attempt(), RemoteRun.numbers(progress));
    }

    @Override
    public void stepEnded(Progress progress) {
        context.killTaskIfInterrupted();
        long now = System.nanoTime();
        long present = group.epoch();
        if (present != change && group.rank() == 0) {
            job.progress().add(RunNotes.NONE.withStart(new RunNotes.Start(job.attempt(), present, progress.step(),
                    group.world() - job.strategy().serverTasks(), System.currentTimeMillis(),
                    change == 0 ? -1 : now - steppedNs)));
            reportedNs = now - REPORT_INTERVAL_NS;
        }
        change = present;
        steppedNs = now;
        if (now - reportedNs >= REPORT_INTERVAL_NS) {
            reportedNs = now;
            job.progress().add(RunNotes.NONE.withStep(group.rank(), step(progress)));
        }
    }

    @Override
    public void epochEnded(Progress progress, EpochReport report) {
        reportedNs = 0;
        RunNotes notes = RunNotes.NONE.withStep(group.rank(), step(progress));
        job.progress().add(group.rank() == 0 ? notes.withEpoch(RemoteRun.numbers(report)) : notes);
    }

    @Override
    public void checkpointSaved(Progress progress, Path manifest) {
        if (checkpoints != null) {
            checkpoints.publish();
        }
    }
}
