package dev.starling.cuda.config;

import dev.starling.tensor.TensorException;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.EnumSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.function.UnaryOperator;

/**
 * The settings of a device, from system properties that begin with {@code starling.cuda.} and from the environment.
 *
 * @param cudnn {@code cudnn}: the families of operations that may use cuDNN
 * @param tf32 {@code tf32}: whether products and convolutions of f32 may round operands to TF32
 * @param nondeterministic {@code nondeterministic}: whether sums may differ from run to run
 * @param omittedEpilogues {@code epilogues.omitted}: epilogues that cuBLASLt does not compute
 * @param autotune {@code autotune}: whether cuDNN's engines are timed
 * @param autotuneLimit {@code autotune.seconds}: how long all graphs together may be timed
 * @param synchronous {@code synchronous}, or the environment's {@code CUDA_LAUNCH_BLOCKING}: whether every operation
 *     waits until it is done
 * @param cache {@code cache}: whether freed device memory is cached
 * @param nvtx {@code starling.nvtx}: true, false, or the file of the library for ranges in Nsight Systems
 */
public record CudaConfig(Set<CudnnFamily> cudnn, boolean tf32, boolean nondeterministic,
        Set<ProductEpilogue> omittedEpilogues, boolean autotune, Duration autotuneLimit, boolean synchronous,
        boolean cache, String nvtx) {
    private static final String PREFIX = "starling.cuda.";
    private static final List<String> NAMES = List.of("cudnn", "tf32", "nondeterministic", "epilogues.omitted",
            "autotune", "autotune.seconds", "synchronous", "cache");

    /**
     * Reads the settings of this process.
     *
     * @throws TensorException if a property has a value, or a name, that does not exist
     */
    public static CudaConfig read() {
        for (String name : System.getProperties().stringPropertyNames()) {
            if (name.startsWith(PREFIX) && !NAMES.contains(name.substring(PREFIX.length()))) {
                throw invalid(name, "does not exist", names(NAMES));
            }
        }
        boolean blocking = "1".equals(System.getenv("CUDA_LAUNCH_BLOCKING"));
        return of(name -> blocking && name.equals(PREFIX + "synchronous") ? "true" : System.getProperty(name));
    }

    /**
     * Returns the settings that properties have.
     *
     * @param properties returns the value of a property, or {@code null} for the default
     * @throws TensorException if a value is invalid
     */
    public static CudaConfig of(UnaryOperator<String> properties) {
        Properties p = new Properties(properties);
        return new CudaConfig(p.all("cudnn", "all", EnumSet.allOf(CudnnFamily.class)), p.is("tf32", false),
                p.is("nondeterministic", false),
                p.all("epilogues.omitted", "", EnumSet.complementOf(EnumSet.of(ProductEpilogue.NOTHING))),
                p.is("autotune", false), p.seconds("autotune.seconds", 60), p.is("synchronous", false),
                p.is("cache", true), p.text("starling.nvtx", "false"));
    }

    private static TensorException invalid(String name, String problem, String valid) {
        return TensorException.argument("the property " + name, problem, "use " + valid);
    }

    private static String names(Collection<?> values) {
        return String.join(", ", values.stream().map(v -> v.toString().toLowerCase(Locale.ROOT)).toList());
    }

    private record Properties(UnaryOperator<String> source) {
        String text(String name, String missing) {
            String value = source.apply(name);
            return value == null ? missing : value.strip();
        }

        boolean is(String name, boolean missing) {
            String value = text(PREFIX + name, Boolean.toString(missing));
            if (!value.matches("(?i)true|false")) {
                throw invalid(PREFIX + name, "is '" + value + "'", "true or false");
            }
            return value.equalsIgnoreCase("true");
        }

        Duration seconds(String name, long missing) {
            String value = text(PREFIX + name, Long.toString(missing));
            if (!value.matches("\\d{1,9}")) {
                throw invalid(PREFIX + name, "is '" + value + "'", "a number of seconds");
            }
            return Duration.ofSeconds(Long.parseLong(value));
        }

        /** Returns the values that a property lists, separated by commas. */
        <E extends Enum<E>> Set<E> all(String name, String missing, EnumSet<E> valid) {
            String text = text(PREFIX + name, missing);
            EnumSet<E> listed = EnumSet.copyOf(valid);
            if (text.equalsIgnoreCase("all")) {
                return listed;
            }
            listed.clear();
            Arrays.stream(text.split(",")).map(String::strip).filter(word -> !word.isEmpty()).forEach(
                    word -> listed.add(valid.stream().filter(e -> e.name().equalsIgnoreCase(word)).findAny()
                            .orElseThrow(() -> invalid(PREFIX + name, "lists '" + word + "'",
                                    "all, or some of " + names(valid)))));
            return listed;
        }
    }
}
