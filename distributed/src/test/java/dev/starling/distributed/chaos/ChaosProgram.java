package dev.starling.distributed.chaos;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.Role;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.coordinator.CoordinatorThread;
import dev.starling.distributed.gossip.Gossip;
import dev.starling.distributed.group.Membership;
import dev.starling.distributed.launch.LaunchedProcess;
import dev.starling.distributed.launch.Launcher;
import dev.starling.distributed.ps.ParameterServer;
import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.distributed.ring.RingAllReduce;
import dev.starling.nn.Layer;
import dev.starling.nn.Sequential;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.TensorDataset;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.Progress;
import dev.starling.nn.train.RunEndedException;
import dev.starling.nn.train.Trainer;
import dev.starling.nn.train.TrainingListener;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.Threads;
import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;

/**
 * A member of a cluster in which faults happen, its coordinator, or its launcher. Prints its process id, its address,
 * each step with its time, each checkpoint that was saved, and a failure with its time, one line each.
 */
final class ChaosProgram implements TrainingListener {
    static final long STEPS_PER_CHECKPOINT = 25;

    private static final Duration TIMEOUT = Duration.ofSeconds(40);
    private static final Duration RUN = Duration.ofHours(1);
    private static final long PACE_NS = 2_000_000;
    private static final int BATCHES = 16;
    private static final int BATCH = 24;
    private static final int INPUTS = 8;
    private static final int HIDDEN = 16;
    private static final String LAUNCH = "launch=true";

    private final Map<String, String> arguments = new HashMap<>();
    private Group group;
    /** When training has thrown an exception; 0 before that. */
    private long thrownNs;

    private ChaosProgram(String[] pairs) {
        for (String each : pairs) {
            arguments.put(each.substring(0, each.indexOf('=')), each.substring(each.indexOf('=') + 1));
        }
    }

    /**
     * Arguments, {@code name=value}: strategy (ring, elastic, gossip, ps or ps-sync), provider, secret, host, silence
     * (ms), directory (of the transport), data (for checkpoints and journals), workers, servers, and either rank and
     * coordinator (addresses), or coordinate=true, or launch=true. A process that the launcher starts has launched=true
     * and gets its rank from the environment.
     */
    public static void main(String[] arguments) {
        Threads.set(1);
        ChaosProgram program = new ChaosProgram(arguments);
        print("pid " + ProcessHandle.current().pid());
        if (!program.arguments.containsKey("launched")) {
            Thread.ofPlatform().daemon().name("parent").start(ChaosProgram::endWithTheParent);
        }
        try {
            if (program.arguments.containsKey("launch")) {
                program.launch(arguments);
            } else {
                program.run();
            }
        } catch (RuntimeException e) {
            print("failed " + (program.thrownNs == 0 ? System.nanoTime() : program.thrownNs) + ' '
                    + e.getClass().getSimpleName() + ' ' + (e instanceof RunEndedException ended ? ended.rank() : -1)
                    + ' ' + e.getMessage());
            System.exit(1);
        }
        System.exit(0);
    }

    /** Runs coordinator and launcher in this process. */
    private void launch(String[] all) {
        String[] own = Stream.concat(Arrays.stream(all).filter(each -> !each.equals(LAUNCH)),
                Stream.of("launched=true")).toArray(String[]::new);
        Launcher.ofJava(ChaosProgram.class, own).processes(world()).servers(number("servers"))
                .grace(ChaosCluster.GRACE).environment("STARLING_DIRECTORY", arguments.get("directory"))
                .coordinator((secret, directory, _) -> CoordinatorThread.start(coordinator(transport(secret,
                        directory)))).run();
    }

    /** Halts when the process ends that started this one. */
    private static void endWithTheParent() {
        try {
            while (System.in.read() >= 0) {
                continue;
            }
        } catch (IOException e) {
            print("cannot read the input: " + e);
        }
        Runtime.getRuntime().halt(2);
    }

    private static void print(String line) {
        System.out.println(line);
    }

    private int number(String name) {
        return Integer.parseInt(arguments.get(name));
    }

    private int world() {
        return number("workers") + number("servers");
    }

    private TransportConfig transport(Secret secret, Path directory) {
        String host = arguments.get("host");
        return TransportConfig.of(arguments.get("provider"), secret).at(host, 0)
                .sharedMemory(host.startsWith("127.")).directory(directory)
                .livenessTimeout(Duration.ofMillis(number("silence")));
    }

    private Coordinator coordinator(TransportConfig transport) {
        return Coordinator.open(transport, world(), Fault.isFailStop(arguments.get("strategy"))
                ? Coordinator.OnLoss.END : Coordinator.OnLoss.REFORM, 1, TIMEOUT);
    }

    private void run() {
        if (arguments.containsKey("launched")) {
            LaunchedProcess me = LaunchedProcess.fromEnvironment().orElseThrow();
            takePart(transport(me.secret(), me.directory()), me.coordinator(), me.rank());
            return;
        }
        TransportConfig transport = transport(Secret.ofHex(arguments.get("secret")),
                Path.of(arguments.get("directory")));
        if (arguments.containsKey("coordinate")) {
            try (CoordinatorThread thread = CoordinatorThread.start(coordinator(transport))) {
                print("address " + thread.address());
                thread.awaitDone(RUN);
            }
            return;
        }
        takePart(transport, arguments.get("coordinator"), number("rank"));
    }

    private void takePart(TransportConfig transport, String coordinator, int rank) {
        Path data = Path.of(arguments.get("data"));
        GroupConfig config = GroupConfig.of(transport, coordinator).place(rank, number("workers"))
                .host(arguments.get("host")).joinTimeout(TIMEOUT).timeout(TIMEOUT);
        try (Group joined = Group.join(config)) {
            group = joined;
            print("address " + Membership.of(joined).self().address());
            if (config.role() instanceof Role.Server) {
                ParameterServer.serve(joined, ServerConfig.in(data.resolve("server-" + rank)));
            } else {
                train(arguments.get("strategy"), rank, data.resolve(ChaosCluster.checkpoints(rank)));
            }
        }
    }

    private DistributionStrategy strategy(String name, int rank) {
        return switch (name) {
            case "ring" -> RingAllReduce.over(group).build();
            case "elastic" -> RingAllReduce.over(group).elastic().build();
            case "gossip" -> Gossip.of(group);
            case "ps" -> servers(rank, new Consistency.Asynchronous());
            case "ps-sync" -> servers(rank, new Consistency.Synchronous());
            default -> throw new IllegalArgumentException(name);
        };
    }

    private DistributionStrategy servers(int rank, Consistency consistency) {
        return ParameterServer.worker(group, rank).workers(number("workers")).servers(number("servers"))
                .consistency(consistency).build();
    }

    private void train(String strategy, int rank, Path checkpoints) {
        Generator same = Generator.seeded(1);
        Tensor x = same.normal(BATCHES * BATCH, INPUTS);
        Tensor y = x.sum(1).gt(0).to(DType.I64);
        try (Layer model = Sequential.of(Linear.of(INPUTS, HIDDEN, same), new Relu(), Linear.of(HIDDEN, 2, same));
                Optimizer sgd = Sgd.over(model).rate(0.01).momentum(0.9).build();
                DataLoader data = DataLoader.of(TensorDataset.of(x, y)).batchSize(BATCH).workers(0).shuffle().build();
                DistributionStrategy distribution = strategy(strategy, rank)) {
            Trainer.Builder trainer = Trainer.of(model, Loss.crossEntropy(), sgd).data(data).strategy(distribution)
                    .epochs(Integer.MAX_VALUE).listeners(this);
            if (!strategy.startsWith("ps")) {
                trainer.checkpoints(checkpoints, STEPS_PER_CHECKPOINT).resume();
            }
            try {
                trainer.build().run();
            } catch (RuntimeException e) {
                thrownNs = System.nanoTime();
                throw e;
            }
        }
    }

    @Override
    public void stepEnded(Progress progress) {
        print("step " + System.nanoTime() + ' ' + progress.step() + ' ' + startedWorld());
        LockSupport.parkNanos(PACE_NS);
    }

    /**
     * Returns the number of members of an epoch that has started, or 0 while the next one forms. Until it has started
     * everywhere, the members of the one before decide which side may continue.
     */
    private int startedWorld() {
        try {
            Membership.of(group).check();
            return group.world();
        } catch (DistributedException e) {
            return 0;
        }
    }

    @Override
    public void checkpointSaved(Progress progress, Path manifest) {
        // The checkpoint is reported at a later step than it is of.
        print("saved " + manifest.getFileName().toString().replaceAll("\\D", ""));
    }
}
