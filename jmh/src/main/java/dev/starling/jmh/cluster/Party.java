package dev.starling.jmh.cluster;

import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.spi.WireProvider;
import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Who is measured. */
enum Party {
    /** Our collectives in memory that all processes of the host map. */
    STARLING("starling", Measure.ALL_REDUCE) {
        @Override
        Member join(String setting, int rank, int world, Path directory) throws Exception {
            return new StarlingMember(config("aeron"), rank, world, directory);
        }
    },
    /** Our collectives as between hosts. */
    STARLING_NETWORK("starling network", Measure.ALL_REDUCE) {
        @Override
        List<Way> ways(Measure measure) {
            return networks();
        }

        @Override
        Member join(String setting, int rank, int world, Path directory) throws Exception {
            return new StarlingMember(config(setting).sharedMemory(false), rank, world, directory);
        }
    },
    /** Our messages and puts within a host. */
    STARLING_MESSAGES("starling", Measure.ROUND_TRIP, Measure.PUT) {
        @Override
        Member join(String setting, int rank, int world, Path directory) throws Exception {
            return new TransportMember(config("aeron"), rank, directory);
        }
    },
    /** Our messages as between hosts. */
    STARLING_NETWORK_MESSAGES("starling network", Measure.ROUND_TRIP) {
        @Override
        List<Way> ways(Measure measure) {
            return networks();
        }

        @Override
        Member join(String setting, int rank, int world, Path directory) throws Exception {
            return new TransportMember(config(setting).sharedMemory(false), rank, directory);
        }
    },
    /** Our strategies, within a host. */
    STARLING_TRAINING("starling", Measure.TRAIN, Measure.STEP_OVERLAPPED) {
        @Override
        List<Way> ways(Measure measure) {
            return measure == Measure.TRAIN ? TrainingMember.STRATEGIES.stream().map(Way::of).toList()
                : List.of(Way.of("ring"));
        }

        @Override
        Member join(String setting, int rank, int world, Path directory) throws Exception {
            TransportConfig transport = config("aeron");
            return rank < world ? new TrainingMember(transport, setting, rank, world, directory)
                : new ServingMember(transport, rank, directory);
        }

        @Override
        int processes(Way way, int world) {
            return world + TrainingMember.servers(way.setting());
        }
    },
    /** Our strategies, as between hosts. */
    STARLING_NETWORK_TRAINING("starling network", Measure.STEP_OVERLAPPED) {
        @Override
        List<Way> ways(Measure measure) {
            return List.of(Way.of("ring"));
        }

        @Override
        Member join(String setting, int rank, int world, Path directory) throws Exception {
            return new TrainingMember(config("aeron").sharedMemory(false), setting, rank, world, directory);
        }
    },
    /** PyTorch's Gloo. */
    GLOO("gloo", Measure.ALL_REDUCE) {
        @Override
        List<Way> ways(Measure measure) {
            return List.of(way("1 thread", "1"), way("2 threads", "2"));
        }

        private static Way way(String name, String setting) {
            return new Way(name, setting, List.of(), Map.of());
        }

        @Override
        Member join(String setting, int rank, int world, Path directory) {
            return new GlooMember(Integer.parseInt(setting), rank, world, directory);
        }
    },
    /** Open MPI over shared memory. */
    OPEN_MPI("open mpi", Measure.ALL_REDUCE, Measure.ROUND_TRIP, Measure.PUT) {
        @Override
        List<Way> ways(Measure measure) {
            return OpenMpi.overMemory(measure);
        }
    },
    /** Open MPI over TCP. */
    OPEN_MPI_TCP("open mpi tcp", Measure.ALL_REDUCE, Measure.ROUND_TRIP) {
        @Override
        List<Way> ways(Measure measure) {
            return OpenMpi.overTcp(measure);
        }
    },
    /** Unary calls of grpc-java. */
    GRPC("grpc", Measure.ROUND_TRIP) {
        @Override
        Member join(String setting, int rank, int world, Path directory) throws Exception {
            return new GrpcMember(rank, directory);
        }
    };

    /** The secret of groups that nobody else can reach. */
    private static final Secret SECRET = Secret.ofText("members of one benchmark");

    private final String label;
    private final Set<Measure> measures;

    Party(String label, Measure first, Measure... rest) {
        this.label = label;
        measures = EnumSet.of(first, rest);
    }

    String label() {
        return label;
    }

    boolean isOpenMpi() {
        return this == OPEN_MPI || this == OPEN_MPI_TCP;
    }

    boolean isOurs() {
        return name().startsWith("STARLING");
    }

    /** Returns which of us this is measured beside. */
    boolean isBeside(Party ours) {
        return switch (ours) {
            case STARLING -> this == OPEN_MPI || this == GLOO;
            case STARLING_NETWORK -> this == OPEN_MPI_TCP || this == GLOO;
            case STARLING_MESSAGES -> this == OPEN_MPI || this == GRPC;
            case STARLING_NETWORK_MESSAGES -> this == OPEN_MPI_TCP || this == GRPC;
            case STARLING_TRAINING, STARLING_NETWORK_TRAINING, GLOO, OPEN_MPI, OPEN_MPI_TCP, GRPC -> false;
        };
    }

    boolean does(Measure measure) {
        return measures.contains(measure);
    }

    /** Returns the ways worth trying. */
    List<Way> ways(Measure measure) {
        return List.of(Way.of(""));
    }

    /** Returns how many processes there are, with those that do not train but serve. */
    int processes(Way way, int world) {
        return world;
    }

    /** Becomes a member in this process. */
    Member join(String setting, int rank, int world, Path directory) throws Exception {
        throw new IllegalStateException(label + " has programs of its own");
    }

    /** Returns how the processes are started; {@code openMpi} is the program of its members. */
    List<List<String>> commands(Way way, int world, Path directory, Path openMpi) {
        if (isOpenMpi()) {
            return List.of(OpenMpi.command(way, world, openMpi));
        }
        List<List<String>> commands = new ArrayList<>();
        for (int rank = 0; rank < processes(way, world); rank++) {
            List<String> command = new ArrayList<>();
            command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
            command.addAll(ManagementFactory.getRuntimeMXBean().getInputArguments());
            command.addAll(List.of("--add-exports=java.base/jdk.internal.misc=ALL-UNNAMED", "-cp",
                System.getProperty("java.class.path"), CrewMember.class.getName(), name(), way.setting(),
                Integer.toString(rank), Integer.toString(world), directory.toString()));
            commands.add(command);
        }
        return commands;
    }

    private static List<Way> networks() {
        return List.of("aeron", "ucx").stream()
            .filter(name -> Transport.providers().get(name) instanceof WireProvider provider
                && provider.availability() instanceof WireProvider.Availability.Ready)
            .map(Way::of).toList();
    }

    /** Members that are stopped while others are measured are not lost. */
    private static TransportConfig config(String provider) {
        return TransportConfig.of(provider, SECRET).livenessTimeout(Duration.ofMinutes(10));
    }
}
