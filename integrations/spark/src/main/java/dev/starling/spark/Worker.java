package dev.starling.spark;

import dev.starling.distributed.Group;
import dev.starling.distributed.gossip.Gossip;
import dev.starling.distributed.ps.Consistency;
import dev.starling.distributed.ps.ParameterServer;
import dev.starling.distributed.ring.RingAllReduce;
import dev.starling.nn.Layer;
import dev.starling.nn.checkpoint.SafeTensors;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.model.ModelDescription;
import dev.starling.nn.optim.Optimizer;
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
    private static final long NOTE_EVERY_NS = 200_000_000;

    private final TrainingJob job;
    private final TaskContext context;
    private final Group group;
    private final RowCache rows;
    private final int[] sizes;
    private final Path directory;
    private final int rank;
    /** {@code null} where this worker saves nothing. */
    private SharedCheckpoints checkpoints;
    private long notedNs;

    Worker(TrainingJob job, TaskContext context, Group group, RowCache rows, int[] sizes, Path directory) {
        this.job = job;
        this.context = context;
        this.group = group;
        this.rows = rows;
        this.sizes = sizes;
        this.directory = directory;
        rank = group.rank();
    }

    /** Returns the weights on rank 0, {@code null} elsewhere. */
    byte[] train() {
        ModelDescription description = job.model();
        try (DistributionStrategy strategy = strategy();
                Layer model = description.build(Thread.currentThread().getContextClassLoader(),
                        Generator.seeded(job.seed()));
                DataLoader data = loader();
                Optimizer optimizer = job.optimizer().over(model, steps())) {
            Trainer.Builder trainer = Trainer.of(model, job.loss().make(), optimizer).data(data).epochs(job.epochs())
                    .seed(job.seed()).strategy(strategy).listeners(this)
                    .listeners(job.listeners().stream().map(l -> l.make(model, rank)).toArray(TrainingListener[]::new))
                    .metrics(job.metrics().stream().map(Recipe::make).toArray(Metric[]::new));
            if (job.checkpoints() != null) {
                trainer.checkpoints(local(), job.everySteps()).resume();
            }
            trainer.build().run();
            if (rank > 0) {
                return null;
            }
            Map<String, String> texts = new LinkedHashMap<>(description.metadata());
            texts.putAll(job.columns().metadata());
            return SafeTensors.bytes(model.state(), texts);
        }
    }

    /** Returns the local directory of checkpoints; on rank 0 it holds what is on the shared file system. */
    private Path local() {
        try {
            Path local = Files.createDirectories(directory.resolve("checkpoints"));
            if (rank == 0) {
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
        return (job.shuffles() ? loader.shuffle() : loader).build();
    }

    private long steps() {
        long shared = job.strategy().isSynchronous() ? Arrays.stream(sizes).asLongStream().sum() : sizes[rank];
        return Math.max(2, job.epochs() * ((shared + job.batchSize() - 1) / job.batchSize()));
    }

    private DistributionStrategy strategy() {
        return switch (job.strategy()) {
            case Strategy.Ring _ -> RingAllReduce.over(group).ownData().build();
            case Strategy.Gossip gossip -> Gossip.onOwnData(group, gossip.period());
            case Strategy.Servers servers -> ParameterServer.worker(group, rank).workers(job.workers())
                    .servers(servers.servers()).ownData().consistency(switch (servers.staleness()) {
                        case -1 -> new Consistency.Asynchronous();
                        case 0 -> new Consistency.Synchronous();
                        default -> new Consistency.Stale(servers.staleness());
                    }).build();
        };
    }

    @Override
    public void stepEnded(Progress progress) {
        context.killTaskIfInterrupted();
        long now = System.nanoTime();
        if (now - notedNs >= NOTE_EVERY_NS) {
            notedNs = now;
            job.progress().add(RunNotes.NONE.withStep(rank, RemoteRun.numbers(progress)));
        }
    }

    @Override
    public void epochEnded(Progress progress, EpochReport report) {
        notedNs = 0;
        RunNotes notes = RunNotes.NONE.withStep(rank, RemoteRun.numbers(progress));
        job.progress().add(rank == 0 ? notes.withEpoch(RemoteRun.numbers(report)) : notes);
    }

    @Override
    public void checkpointSaved(Progress progress, Path manifest) {
        if (checkpoints != null) {
            checkpoints.publish();
        }
    }
}
