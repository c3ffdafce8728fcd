package dev.starling.jmh.cluster;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** The Open MPI installation of this machine. */
final class OpenMpi {
    /** Makes malloc keep the memory of temporary buffers, which it would otherwise map anew for each large message. */
    private static final Map<String, String> KEEP_MEMORY = Map.of("MALLOC_MMAP_THRESHOLD_", "1073741824",
        "MALLOC_TRIM_THRESHOLD_", "4294967296", "OMPI_ALLOW_RUN_AS_ROOT", "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");

    private OpenMpi() {
    }

    /** Compiles the members' program; returns {@code null}, or why that is not possible. */
    static String missing(Path program) throws IOException, InterruptedException {
        if (Files.exists(program)) {
            return null;
        }
        Path source = program.resolveSibling("openmpi.c");
        try (InputStream in = OpenMpi.class.getResourceAsStream("openmpi.c")) {
            Files.write(source, in.readAllBytes());
        }
        try {
            Process compiler = new ProcessBuilder("mpicc", "-O3", "-march=native", "-o", program.toString(),
                source.toString()).redirectErrorStream(true).start();
            String output = new String(compiler.getInputStream().readAllBytes());
            return compiler.waitFor(60, TimeUnit.SECONDS) && compiler.exitValue() == 0 ? null
                : "mpicc cannot compile: " + output.strip();
        } catch (IOException e) {
            return "mpicc is not installed (Debian and Ubuntu: openmpi-bin libopenmpi-dev)";
        }
    }

    static List<String> command(Variant variant, int world, Path program, Hosts hosts) {
        List<String> command = new ArrayList<>(List.of("mpirun", "--oversubscribe", "--mca",
            "ess_base_forward_signals", "none", "-n", Integer.toString(world)));
        command.addAll(hosts.forMpi(world));
        variant.environment().keySet().stream().filter(name -> name.startsWith("MALLOC")).sorted()
            .forEach(name -> command.addAll(List.of("-x", name)));
        command.addAll(variant.arguments());
        command.add(program.toString());
        return command;
    }

    /** Variants over shared memory: the copy mechanism and the algorithm. */
    static List<Variant> overMemory(Measure measure) {
        return measure != Measure.ALL_REDUCE ? List.of(memory("cma")) : List.of(
            memory("cma"),
            memory("none"),
            memory("cma", "5", "65536"),
            memory("cma", "5", "262144"),
            memory("cma", "6", "0"),
            memory("cma", "3", "0"));
    }

    private static Variant memory(String copy, String... algorithm) {
        List<String> arguments = new ArrayList<>(List.of("--mca", "pml", "ob1", "--mca", "btl", "self,vader", "--mca",
            "btl_vader_single_copy_mechanism", copy));
        return variant("vader " + copy, arguments, algorithm);
    }

    /** Variants over TCP. */
    static List<Variant> overTcp(Measure measure) {
        List<String> arguments = List.of("--mca", "pml", "ob1", "--mca", "btl", "self,tcp");
        Variant plain = variant("tcp", arguments);
        return measure != Measure.ALL_REDUCE ? List.of(plain)
            : List.of(plain, variant("tcp", arguments, "5", "262144"), variant("tcp", arguments, "4", "0"));
    }

    private static Variant variant(String name, List<String> arguments, String... algorithm) {
        List<String> all = new ArrayList<>(arguments);
        if (algorithm.length == 0) {
            return new Variant(name, name, all, KEEP_MEMORY);
        }
        all.addAll(List.of("--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_allreduce_algorithm",
            algorithm[0], "--mca", "coll_tuned_allreduce_algorithm_segmentsize", algorithm[1]));
        String names = List.of("", "linear", "nonoverlapping", "recursive doubling", "ring", "segmented ring",
            "rabenseifner").get(Integer.parseInt(algorithm[0]));
        String segment = algorithm[1].equals("0") ? "" : " " + Integer.parseInt(algorithm[1]) / 1024 + " KiB";
        return new Variant(name + " " + names + segment, name, all, KEEP_MEMORY);
    }
}
