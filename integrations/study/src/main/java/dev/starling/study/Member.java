package dev.starling.study;

import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.gossip.Gossip;
import dev.starling.distributed.launch.LaunchedProcess;
import dev.starling.distributed.ps.ParameterServer;
import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.distributed.ring.RingAllReduce;
import dev.starling.nn.Layer;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.ImageDataset;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.Metric;
import dev.starling.nn.train.ProgressBar;
import dev.starling.nn.train.SingleProcess;
import dev.starling.nn.train.Trainer;
import dev.starling.nn.train.TrainingListener;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Threads;
import dev.starling.transport.TransportConfig;
import java.nio.file.Path;
import java.time.Duration;

/** A process of a training, started by {@link Study}; its one argument is the file of its {@link Plan}. */
public final class Member {
    static final String TRANSPORT = "aeron";
    static final Duration SILENCE = Duration.ofSeconds(30);
    private static final Duration JOIN_TIMEOUT = Duration.ofMinutes(2);

    private Member() {
    }

    /** Trains or serves until the training has ended. */
    public static void main(String[] arguments) {
        Plan plan = Json.read(Path.of(arguments[0]), Plan.class);
        LaunchedProcess me = LaunchedProcess.fromEnvironment().orElseThrow(() ->
                new IllegalStateException("./starling study starts this program; it does not run by itself"));
        Threads.set(me.threads());
        if (me.world() == 1) {
            train(plan, new SingleProcess());
            return;
        }
        TransportConfig transport = TransportConfig.of(TRANSPORT, me.secret()).at(me.host(), 0)
                .directory(me.directory()).livenessTimeout(SILENCE);
        try (Group group = Group.join(GroupConfig.of(transport, me.coordinator()).place(me.rank(), me.workers())
                .joinTimeout(JOIN_TIMEOUT).timeout(JOIN_TIMEOUT))) {
            if (me.isServer()) {
                ParameterServer.serve(group, ServerConfig.inMemory());
                return;
            }
            try (DistributionStrategy strategy = strategy(plan.setup(), group, me)) {
                train(plan, strategy);
            }
        }
    }

    private static DistributionStrategy strategy(Setup setup, Group group, LaunchedProcess me) {
        return switch (setup) {
            case RING_2, RING_4 -> RingAllReduce.over(group).build();
            case GOSSIP_4 -> Gossip.of(group);
            case PS_ASYNC, PS_STALE -> ParameterServer.worker(group, me.rank()).workers(me.workers())
                    .servers(me.servers()).consistency(setup == Setup.PS_ASYNC ? new Consistency.Asynchronous()
                            : new Consistency.Stale(Setup.STALENESS)).build();
            case SINGLE, SPARK_2, GPU -> throw new IllegalArgumentException(setup + " has no group of processes");
        };
    }

    private static void train(Plan plan, DistributionStrategy strategy) {
        Recipe recipe = plan.recipe();
        Device device = plan.setup() == Setup.GPU ? Device.of("cuda", 0) : Device.cpu();
        Generator generator = Generator.seeded(plan.seed());
        try (Layer model = plan.model().build(generator).to(device);
                DataLoader data = DataLoader.of(ImageDataset.of(Images.read(Path.of(plan.trainFile()),
                        recipe.images()), Images.asBytes())).batchSize(recipe.updateBatch(plan.setup())).workers(1)
                        .shuffle().seed(plan.seed()).build().share(strategy.share());
                Optimizer optimizer = plan.optimizer(model, (long) recipe.epochs() * data.batches())) {
            Snapshots snapshots = new Snapshots(plan, model, strategy.rank());
            TrainingListener[] listeners = strategy.rank() > 0 ? new TrainingListener[] {snapshots}
                    : new TrainingListener[] {snapshots, ProgressBar.onStandardError().unit("images")};
            Trainer.of(model, Loss.crossEntropy(), optimizer).data(data).epochs(recipe.epochs()).seed(plan.seed())
                    .metrics(Metric.accuracy()).strategy(strategy).listeners(listeners).build().run();
        }
    }
}
