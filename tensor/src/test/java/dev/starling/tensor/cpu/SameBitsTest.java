package dev.starling.tensor.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.scalar.Opcode;
import dev.starling.tensor.program.Program;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/**
 * The JVM's interpreter and its compilers make the same bits, from the first call to the last. Those of opcodes are
 * those of machine code, which the child processes do not use.
 */
class SameBitsTest {
    private static final List<String> INTERPRETER = List.of("-Xint");
    private static final List<String> FIRST_COMPILER = List.of("-XX:TieredStopAtLevel=1");
    private static final List<String> SECOND_COMPILER = List.of("-XX:-TieredCompilation");

    @Test
    void doesNotDependOnWhatTheJvmHasCompiled() throws Exception {
        compare(Map.of(INTERPRETER, 1, FIRST_COMPILER, 20), 8);
    }

    @Test
    void doesNotDependOnTheCompilerWithoutTheVectorApi() throws Exception {
        Map<String, Long> interpreted = child(false, INTERPRETER, 1);
        assertThat(child(false, FIRST_COMPILER, 20)).isEqualTo(interpreted);
    }

    /** Enough calls for the second compiler to replace the code that ran before. */
    @Test
    void keepsBitsWhileTheJvmCompiles() {
        for (DType type : new DType[] {DType.F32, DType.F64}) {
            try (Scope scope = Scope.open("test")) {
                Tensor x = Generator.seeded(1).uniform(301).add(0.01).to(type);
                double[] first = null;
                for (int call = 0; call < 4_000; call++) {
                    try (Scope each = Scope.open("call")) {
                        double[] values = x.pow(2.5).sinh().add(x.tanh()).sin().add(x.log1p()).toDoubles();
                        first = first == null ? values : first;
                        assertThat(Arrays.equals(values, first)).as("call %s in %s", call, type).isTrue();
                    }
                }
            }
        }
    }

    @Test
    @Tag("stress")
    void keepsBitsOverManyCalls() throws Exception {
        compare(Map.of(INTERPRETER, 1, FIRST_COMPILER, 5_000, SECOND_COMPILER, 30_000), 30_000);
    }

    /** A captured step computes chains in one loop. */
    @Test
    void givesTheSameBitsCapturedAsEager() {
        for (DType type : new DType[] {DType.F32, DType.F64}) {
            try (Scope scope = Scope.open("test")) {
                Tensor x = Generator.seeded(1).uniform(1001).add(0.01).to(type);
                Program.Work chain = in -> new Tensor[] {in[0].pow(2.5).sin().add(in[0].log1p()).sinh().tanh()};
                double[] eager = chain.run(new Tensor[] {x})[0].toDoubles();
                var captured = Program.capture(null, chain, x);
                try (Program program = captured.program()) {
                    for (int i = 0; i < 300; i++) {
                        assertThat(program.run(x)[0].toDoubles()).as("run %s in %s", i, type).isEqualTo(eager);
                    }
                }
            }
        }
    }

    private static void compare(Map<List<String>, Integer> children, int calls) throws Exception {
        Map<String, Long> opcodes = new TreeMap<>(SameBits.digests(calls));
        opcodes.keySet().removeIf(name -> Arrays.stream(Opcode.values()).noneMatch(o -> name.startsWith(o + " ")));
        Map<String, Long> first = null;
        for (Map.Entry<List<String>, Integer> child : children.entrySet()) {
            Map<String, Long> digests = child(true, child.getKey(), child.getValue());
            first = first == null ? digests : first;
            assertThat(digests).as("%s", child.getKey()).isEqualTo(first);
            assertThat(digests).as("%s and machine code", child.getKey()).containsAllEntriesOf(opcodes);
        }
    }

    private static Map<String, Long> child(boolean vectors, List<String> flags, int calls)
            throws IOException, InterruptedException {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(flags);
        if (vectors && ModuleLayer.boot().findModule("jdk.incubator.vector").isPresent()) {
            command.add("--add-modules=jdk.incubator.vector");
        }
        command.addAll(List.of("-Dstarling.native-loops=false", "--enable-native-access=ALL-UNNAMED", "-cp",
                System.getProperty("java.class.path"), SameBits.class.getName(), Integer.toString(calls)));
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        Map<String, Long> digests = new TreeMap<>();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(process.waitFor(10, TimeUnit.MINUTES)).isTrue();
        assertThat(process.exitValue()).as(output).isZero();
        for (String line : output.lines().filter(l -> l.startsWith("digest ")).toList()) {
            int end = line.lastIndexOf(' ');
            digests.put(line.substring("digest ".length(), end), Long.parseLong(line.substring(end + 1)));
        }
        return digests;
    }
}
