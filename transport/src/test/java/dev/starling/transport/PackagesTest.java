package dev.starling.transport;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** The packages of this module, as imports connect them. */
class PackagesTest {
    private static final Path SOURCES = Path.of("src", "main", "java");
    private static final String ROOT = "dev.starling.transport";
    private static final Pattern PACKAGE = Pattern.compile("^package ([a-z.]+);", Pattern.MULTILINE);
    private static final Pattern IMPORT = Pattern.compile(
            "^import (?:static )?(dev\\.starling\\.transport(?:\\.[a-z]+)*)\\.[A-Z]", Pattern.MULTILINE);

    /** By package, the packages that it imports. */
    private static Map<String, Set<String>> imports() throws IOException {
        Map<String, Set<String>> imports = new TreeMap<>();
        try (Stream<Path> files = Files.walk(SOURCES)) {
            for (Path file : files.filter(each -> each.toString().endsWith(".java")).toList()) {
                String source = Files.readString(file);
                Matcher own = PACKAGE.matcher(source);
                if (own.find()) {
                    Set<String> targets = imports.computeIfAbsent(own.group(1), _ -> new TreeSet<>());
                    IMPORT.matcher(source).results().map(match -> match.group(1)).forEach(targets::add);
                    targets.remove(own.group(1));
                }
            }
        }
        return imports;
    }

    /** Returns the packages that remain when those that import no other are removed again and again: the circles. */
    private static Set<String> circles(Map<String, Set<String>> imports) {
        Set<String> left = new TreeSet<>(imports.keySet());
        while (left.removeIf(each -> imports.get(each).stream().noneMatch(left::contains))) { }
        return left;
    }

    @Test
    void formNoCircle() throws IOException {
        Map<String, Set<String>> imports = imports();
        assertThat(imports.get(ROOT)).contains(ROOT + ".frame", ROOT + ".spi");
        assertThat(circles(imports)).isEmpty();
    }

    @Test
    void beginWithFramesAndWiresThatKnowNothingOfTransports() throws IOException {
        assertThat(imports().get(ROOT + ".frame")).isEmpty();
        assertThat(imports().get(ROOT + ".spi")).isEmpty();
    }

    @Test
    void ofACircleAreFound() {
        Map<String, Set<String>> imports = new TreeMap<>(Map.of("a", Set.of("b"), "b", Set.of("c", "d"), "c", Set.of(),
                "d", Set.of("b")));
        assertThat(circles(imports)).containsExactly("a", "b", "d");
        imports.put("d", Set.of());
        assertThat(circles(imports)).isEmpty();
    }
}
