package dev.starling.cuda.compile;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The source of a kernel: one of this module's kernel files, specialised by macros.
 *
 * @param name file and macros, for messages
 * @param function name of the kernel in the file
 * @param text the whole source
 */
public record KernelSource(String name, String function, String text) {
    private static final String FOLDER = "/dev/starling/cuda/kernels/";
    private static final Pattern INCLUDE = Pattern.compile("(?m)^#include \"([\\w.]+)\"$");
    private static final Map<String, String> FILES = new ConcurrentHashMap<>();

    /**
     * Reads a source.
     *
     * @param file the file's name without extension, for example {@code elementwise}
     * @param function name of the kernel in the file
     * @param macros alternately the name and the value of a macro, defined before the source: a text, a number, or a
     *     boolean, which becomes 1 or 0
     */
    public static KernelSource of(String file, String function, Object... macros) {
        StringBuilder defines = new StringBuilder();
        StringBuilder name = new StringBuilder(file).append('.').append(function);
        for (int i = 0; i < macros.length; i += 2) {
            Object value = macros[i + 1] instanceof Boolean is ? (is ? 1 : 0) : macros[i + 1];
            defines.append("#define ").append(macros[i]).append(' ').append(value).append('\n');
            name.append(i == 0 ? "<" : ", ").append(macros[i]).append('=').append(value);
        }
        name.append(macros.length == 0 ? "" : ">");
        return new KernelSource(name.toString(), function, read("prelude.cuh") + defines + read(file + ".cu"));
    }

    /** Reads a file and replaces its {@code #include} lines by the files that they name. */
    private static String read(String file) {
        String text = FILES.get(file);
        if (text == null) {
            text = INCLUDE.matcher(load(file)).replaceAll(m -> Matcher.quoteReplacement(load(m.group(1))));
            FILES.put(file, text);
        }
        return text;
    }

    private static String load(String file) {
        try (InputStream in = KernelSource.class.getResourceAsStream(FOLDER + file)) {
            if (in == null) {
                throw new IllegalArgumentException("there is no kernel file " + FOLDER + file);
            }
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
