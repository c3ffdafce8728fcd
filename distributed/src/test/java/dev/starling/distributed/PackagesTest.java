package dev.starling.distributed;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Optional;
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
    private static final Pattern PACKAGE = Pattern.compile("^package ([a-z.]+);", Pattern.MULTILINE);
    private static final Pattern IMPORT = Pattern.compile(
            "^import (?:static )?(dev\\.starling\\.distributed(?:\\.[a-z]+)*)\\.[A-Z]", Pattern.MULTILINE);

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

    /** Returns the packages of a circle, in order, the first also last. */
    private static Optional<List<String>> circle(Map<String, Set<String>> imports) {
        Set<String> finished = new TreeSet<>();
        for (String each : imports.keySet()) {
            Optional<List<String>> found = circle(each, imports, new ArrayDeque<>(), finished);
            if (found.isPresent()) {
                return found;
            }
        }
        return Optional.empty();
    }

    private static Optional<List<String>> circle(String at, Map<String, Set<String>> imports, Deque<String> path,
            Set<String> finished) {
        if (path.contains(at)) {
            List<String> way = Stream.concat(path.stream(), Stream.of(at)).toList();
            return Optional.of(way.subList(way.indexOf(at), way.size()));
        }
        if (!finished.contains(at)) {
            path.addLast(at);
            for (String next : imports.getOrDefault(at, Set.of())) {
                Optional<List<String>> found = circle(next, imports, path, finished);
                if (found.isPresent()) {
                    return found;
                }
            }
            path.removeLast();
            finished.add(at);
        }
        return Optional.empty();
    }

    @Test
    void formNoCircle() throws IOException {
        Map<String, Set<String>> imports = imports();
        assertThat(imports).containsKeys("dev.starling.distributed", "dev.starling.distributed.group",
                "dev.starling.distributed.ps.server");
        assertThat(imports.get("dev.starling.distributed.group")).contains("dev.starling.distributed");
        assertThat(circle(imports)).isEmpty();
    }

    @Test
    void beginWithValuesThatKnowNothingOfTheRest() throws IOException {
        assertThat(imports().get("dev.starling.distributed")).isEmpty();
    }

    @Test
    void aCircleIsFound() {
        Map<String, Set<String>> imports = new TreeMap<>(Map.of("a", Set.of("b"), "b", Set.of("c", "d"), "c", Set.of(),
                "d", Set.of("b")));
        assertThat(circle(imports)).contains(List.of("b", "d", "b"));
        imports.put("d", Set.of());
        assertThat(circle(imports)).isEmpty();
    }
}
