package dev.starling.jmh.cluster;

import dev.starling.transport.Protection;
import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.spi.WireProvider;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** The implementations to compare. */
enum Implementation {
    /** Starling's collectives in memory that all processes of the host map. */
    STARLING("starling", Measure.ALL_REDUCE) {
        @Override
        Member join(String setting, Seat seat) throws Exception {
            return new StarlingMember(config("aeron", seat), seat.rank(), seat.world(), seat.directory());
        }
    },
    /** Starling's collectives as between hosts. */
    STARLING_NETWORK("starling network", Measure.ALL_REDUCE) {
        @Override
        List<Variant> variants(Measure measure) {
            return networks();
        }

        @Override
        Member join(String setting, Seat seat) throws Exception {
            return group(setting, Protection.PLAIN, seat);
        }
    },
    /** Starling's collectives over TCP as between hosts, with a checksum on each frame. */
    STARLING_PLAIN("starling plain", Measure.ALL_REDUCE) {
        @Override
        Member join(String setting, Seat seat) throws Exception {
            return group("tcp", Protection.PLAIN, seat);
        }
    },
    /** The same with authenticated frames. */
    STARLING_AUTHENTICATED("starling authentic", Measure.ALL_REDUCE) {
        @Override
        Member join(String setting, Seat seat) throws Exception {
            return group("tcp", Protection.AUTHENTICATED, seat);
        }
    },
    /** The same with encrypted frames: the default between hosts. */
    STARLING_ENCRYPTED("starling encrypted", Measure.ALL_REDUCE) {
        @Override
        Member join(String setting, Seat seat) throws Exception {
            return group("tcp", Protection.ENCRYPTED, seat);
        }
    },
    /** Starling's messages and puts within a host. */
    STARLING_MESSAGES("starling", Measure.ROUND_TRIP, Measure.PUT) {
        @Override
        Member join(String setting, Seat seat) throws Exception {
            return new TransportMember(config("aeron", seat), seat.rank(), seat.directory());
        }
    },
    /** Starling's messages as between hosts. */
    STARLING_NETWORK_MESSAGES("starling network", Measure.ROUND_TRIP) {
        @Override
        List<Variant> variants(Measure measure) {
            return networks();
        }

        @Override
        Member join(String setting, Seat seat) throws Exception {
            return new TransportMember(network(setting, Protection.PLAIN, seat), seat.rank(), seat.directory());
        }
    },
    /** Starling's strategies within a host. */
    STARLING_TRAINING("starling", Measure.TRAIN, Measure.STEP_OVERLAPPED) {
        @Override
        List<Variant> variants(Measure measure) {
            return measure == Measure.TRAIN ? TrainingMember.STRATEGIES.stream().map(Variant::of).toList()
                : List.of(Variant.of("ring"));
        }

        @Override
        Member join(String setting, Seat seat) throws Exception {
            TransportConfig transport = config("aeron", seat);
            return seat.rank() < seat.world()
                ? new TrainingMember(transport, setting, seat.rank(), seat.world(), seat.directory())
                : new ServingMember(transport, seat.rank(), seat.directory());
        }

        @Override
        int processes(Variant variant, int world) {
            return world + TrainingMember.servers(variant.setting());
        }
    },
    /** Starling's strategies as between hosts. */
    STARLING_NETWORK_TRAINING("starling network", Measure.STEP_OVERLAPPED) {
        @Override
        List<Variant> variants(Measure measure) {
            return List.of(Variant.of("ring"));
        }

        @Override
        Member join(String setting, Seat seat) throws Exception {
            return new TrainingMember(network("aeron", Protection.PLAIN, seat), setting, seat.rank(), seat.world(),
                seat.directory());
        }
    },
    /** PyTorch's Gloo. */
    GLOO("gloo", Measure.ALL_REDUCE) {
        @Override
        List<Variant> variants(Measure measure) {
            return List.of(variant("1 thread", "1"), variant("2 threads", "2"));
        }

        private static Variant variant(String name, String setting) {
            return new Variant(name, setting, List.of(), Map.of());
        }

        @Override
        Member join(String setting, Seat seat) throws IOException {
            return new GlooMember(Integer.parseInt(setting), seat);
        }
    },
    /** Open MPI over shared memory. */
    OPEN_MPI("open mpi", Measure.ALL_REDUCE, Measure.ROUND_TRIP, Measure.PUT) {
        @Override
        List<Variant> variants(Measure measure) {
            return OpenMpi.overMemory(measure);
        }
    },
    /** Open MPI over TCP. */
    OPEN_MPI_TCP("open mpi tcp", Measure.ALL_REDUCE, Measure.ROUND_TRIP) {
        @Override
        List<Variant> variants(Measure measure) {
            return OpenMpi.overTcp(measure);
        }
    },
    /** Unary calls of grpc-java. */
    GRPC("grpc", Measure.ROUND_TRIP) {
        @Override
        Member join(String setting, Seat seat) throws Exception {
            return new GrpcMember(seat.rank(), seat.directory());
        }
    };

    /** The secret of groups on this machine, whose networks no other host can reach. */
    private static final Secret SECRET = Secret.ofText("members of one benchmark");

    /** The property with options of the network's wire, such as {@code connections=2,sendBuffer=1m}. */
    private static final String OPTIONS = "starling.bench.options";

    private final String label;
    private final Set<Measure> measures;

    Implementation(String label, Measure first, Measure... rest) {
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

    /** Returns whether this is a peer of one of Starling's implementations, or what that is measured against. */
    boolean isPeerOf(Implementation ours) {
        return switch (ours) {
            case STARLING -> this == OPEN_MPI || this == GLOO;
            case STARLING_NETWORK, STARLING_PLAIN -> this == OPEN_MPI_TCP || this == GLOO;
            case STARLING_MESSAGES -> this == OPEN_MPI || this == GRPC;
            case STARLING_NETWORK_MESSAGES -> this == OPEN_MPI_TCP || this == GRPC;
            case STARLING_AUTHENTICATED, STARLING_ENCRYPTED -> this == STARLING_PLAIN;
            case STARLING_TRAINING, STARLING_NETWORK_TRAINING, GLOO, OPEN_MPI, OPEN_MPI_TCP,
                GRPC -> false;
        };
    }

    boolean supports(Measure measure) {
        return measures.contains(measure);
    }

    /** Returns whether its members can run on hosts that share no memory. */
    boolean runsBetweenHosts() {
        return switch (this) {
            case STARLING_NETWORK, STARLING_PLAIN, STARLING_AUTHENTICATED, STARLING_ENCRYPTED,
                STARLING_NETWORK_MESSAGES, GLOO, OPEN_MPI_TCP -> true;
            case STARLING, STARLING_MESSAGES, STARLING_TRAINING, STARLING_NETWORK_TRAINING, OPEN_MPI, GRPC -> false;
        };
    }

    /** Returns the variants worth trying. */
    List<Variant> variants(Measure measure) {
        return List.of(Variant.of(""));
    }

    /** Returns the number of processes, parameter servers included. */
    int processes(Variant variant, int world) {
        return world;
    }

    /** Joins as a member in this process. */
    Member join(String setting, Seat seat) throws Exception {
        throw new IllegalStateException(label + " runs in its own programs, not in a JVM");
    }

    /** Returns the commands that start the processes; {@code openMpi} is the program of Open MPI's members. */
    List<List<String>> commands(Variant variant, int world, Path directory, Path openMpi, Hosts hosts) {
        if (isOpenMpi()) {
            return List.of(hosts.on(0, OpenMpi.command(variant, world, openMpi, hosts)));
        }
        List<List<String>> commands = new ArrayList<>();
        for (int rank = 0; rank < processes(variant, world); rank++) {
            List<String> command = new ArrayList<>();
            command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
            command.addAll(ManagementFactory.getRuntimeMXBean().getInputArguments());
            command.addAll(List.of("--add-exports=java.base/jdk.internal.misc=ALL-UNNAMED", "-cp",
                System.getProperty("java.class.path"), MemberProcess.class.getName(), name(), variant.setting(),
                Integer.toString(rank), Integer.toString(world), directory.toString(), hosts.address(rank)));
            commands.add(hosts.on(rank, command));
        }
        return commands;
    }

    private static List<Variant> networks() {
        return List.of("aeron", "tcp", "ucx").stream()
            .filter(name -> Transport.providers().get(name) instanceof WireProvider provider
                && provider.availability() instanceof WireProvider.Availability.Ready)
            .map(Variant::of).toList();
    }

    private static Member group(String setting, Protection protection, Seat seat) throws Exception {
        return new StarlingMember(network(setting, protection, seat), seat.rank(), seat.world(), seat.directory());
    }

    private static TransportConfig network(String provider, Protection protection, Seat seat) {
        TransportConfig config = config(provider, seat).sharedMemory(false).protection(protection);
        for (String option : System.getProperty(OPTIONS, "").split(",")) {
            String[] parts = option.split("=", 2);
            config = parts.length < 2 ? config : config.option(parts[0], parts[1]);
        }
        return config;
    }

    /** Returns a configuration in which members that are stopped while others are measured do not count as lost. */
    private static TransportConfig config(String provider, Seat seat) {
        return TransportConfig.of(provider, SECRET).at(seat.host(), 0).livenessTimeout(Duration.ofMinutes(10));
    }
}
