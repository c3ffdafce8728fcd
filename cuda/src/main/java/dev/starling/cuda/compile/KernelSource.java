package dev.starling.cuda.compile;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The source of a kernel: a file beside this module's kernels, specialised by macros.
 *
 * @param name of the file with its macros, for messages
 * @param function the kernel in it
 * @param text all of the source
 */
public record KernelSource(String name, String function, String text) {
    private static final String FOLDER = "/dev/starling/cuda/kernels/";
    private static final Map<String, String> FILES = new ConcurrentHashMap<>();

    /**
     * Reads a source.
     *
     * @param file its name without the ending, for example {@code elementwise}
     * @param function the kernel in it
     * @param macros names and values in turn, which are defined before the source
     */
    public static KernelSource of(String file, String function, String... macros) {
        StringBuilder defines = new StringBuilder();
        StringBuilder name = new StringBuilder(file).append('.').append(function);
        for (int i = 0; i < macros.length; i += 2) {
            defines.append("#define ").append(macros[i]).append(' ').append(macros[i + 1]).append('\n');
            name.append(i == 0 ? "<" : ", ").append(macros[i]).append('=').append(macros[i + 1]);
        }
        name.append(macros.length == 0 ? "" : ">");
        return new KernelSource(name.toString(), function, read("prelude.cuh") + defines + read(file + ".cu"));
    }

    private static String read(String file) {
        return FILES.computeIfAbsent(file, f -> {
            try (InputStream in = KernelSource.class.getResourceAsStream(FOLDER + f)) {
                if (in == null) {
                    throw new IllegalArgumentException("there is no kernel file " + FOLDER + f);
                }
                return new String(in.readAllBytes(), StandardCharsets.UTF_8);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        });
    }
}
