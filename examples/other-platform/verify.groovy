import groovy.json.JsonSlurper
import java.security.MessageDigest

// Maven: all natives are those of the platform that the property names.
def log = new File(basedir, 'build.log').text
def tree = (log =~ /([\w.-]+):([\w.-]+):jar:(?:([\w-]+):)?([^:\s]+):(?:compile|runtime)/).collect { it[1..4] } as Set
def mavenNatives = tree.findAll { it[2] } as Set
assert mavenNatives.collect { it[1..2] } as Set == ['javacpp', 'dnnl', 'opencl'].collect { [it, 'windows-x86_64'] } as Set

// Gradle: the metadata of each published module are as their specification (1.1) requires.
def fields = { Map object, List<String> required, List<String> optional ->
    assert object.keySet().containsAll(required) && (required + optional).containsAll(object.keySet())
    object
}
def texts = { Map object -> object.values().each { assert it instanceof String && it } }
def valid = { Map module, File folder ->
    assert module.keySet().first() == 'formatVersion' && module.formatVersion == '1.1'
    fields(module, ['formatVersion', 'component', 'variants'], ['createdBy'])
    texts(fields(module.component, ['group', 'module', 'version'], []))
    assert module.variants*.name.toSet().size() == module.variants.size()
    assert module.variants*.attributes.toSet().size() == module.variants.size()
    module.variants.each { variant ->
        fields(variant, ['name', 'attributes', 'dependencies', 'files'], [])
        assert variant.attributes && variant.attributes.every { key, value -> value.class in [String, Boolean]
                || key == 'org.gradle.jvm.version' && value == 25 }
        variant.dependencies.each {
            fields(it, ['group', 'module', 'version'], ['excludes', 'thirdPartyCompatibility'])
            texts(fields(it.version, ['requires'], []))
            it.excludes.each { texts(fields(it, ['group', 'module'], [])) }
            if (it.thirdPartyCompatibility) {
                fields(it.thirdPartyCompatibility, ['artifactSelector'], [])
                texts(fields(it.thirdPartyCompatibility.artifactSelector, ['name', 'type', 'extension', 'classifier'], []))
            }
        }
        variant.files.each {
            fields(it, ['name', 'url', 'size', 'sha1', 'sha256', 'sha512', 'md5'], [])
            byte[] jar = new File(folder, it.url).bytes
            assert it.size == jar.length && it.name == it.url && !it.url.contains('/')
            [sha1: 'SHA-1', sha256: 'SHA-256', sha512: 'SHA-512', md5: 'MD5'].each { name, algorithm ->
                assert it[name] == HexFormat.of().formatHex(MessageDigest.getInstance(algorithm).digest(jar))
            }
        }
    }
}

// What Gradle selects: of what is compatible, the only one that matches most of the requested attributes and all that any
// other matches; else the only one without an attribute that was not requested.
def select = { Map module, Map wanted ->
    def compatible = module.variants.findAll { v -> wanted.every { key, value -> !v.attributes.containsKey(key)
            || v.attributes[key] == value || value == 'java-api' && v.attributes[key] == 'java-runtime' } }
    def preferred = compatible.findAll { it.attributes['org.gradle.usage'] == wanted['org.gradle.usage'] }
    def matched = { it.attributes.keySet().intersect(wanted.keySet()) }
    def longest = preferred.max { matched(it).size() }
    def best = preferred.findAll { it.is(longest) || !matched(longest).containsAll(matched(it))
            || matched(it).size() == matched(longest).size() }
    def chosen = best.size() == 1 ? best : preferred.findAll { wanted.keySet().containsAll(it.attributes.keySet()) }
    assert chosen.size() == 1
    chosen.first()
}
def natives = { variant -> variant.dependencies.findAll { it.thirdPartyCompatibility }.collect {
    [it.group, it.module, it.thirdPartyCompatibility.artifactSelector.classifier, it.version.requires] } as Set }
def wanted = { String usage, Map more -> ['org.gradle.usage': usage, 'org.gradle.category': 'library',
    'org.gradle.libraryelements': 'jar', 'org.gradle.dependency.bundling': 'external', 'org.gradle.jvm.version': 25,
    'org.gradle.jvm.environment': 'standard-jvm'] + more }
def platforms = ['linux-x86_64': ['linux', 'x86-64'], 'linux-arm64': ['linux', 'aarch64'],
                 'macosx-x86_64': ['macos', 'x86-64'], 'macosx-arm64': ['macos', 'aarch64'],
                 'windows-x86_64': ['windows', 'x86-64']]

def root = new File(basedir, '../../../..')
// A build of some modules has not packaged the last three.
def packaged = { path -> new File(root, "$path/target").list()?.any { it.endsWith('.module') } }
def modules = (['errors', 'tensor', 'autograd', 'nn', 'transport', 'distributed']
        + ['cuda', 'integrations/spark', 'integrations/kafka'].findAll(packaged)).collectEntries { path ->
    def name = "starling-${path.split('/').last()}".toString()
    assert new File(root, "$path/pom.xml").text.contains('<!-- do_not_remove: published-with-gradle-metadata -->')
    def folder = new File(root, "$path/target")
    def file = folder.listFiles().find { it.name ==~ /$name-[\d.]+(-SNAPSHOT)?\.module/ }
    def module = new JsonSlurper().parse(file, 'UTF-8')
    valid(module, folder)
    assert file.name == "${module.component.module}-${module.component.version}.module".toString()
    [name, module]
}
modules.each { name, module ->
    def everywhere = select(module, wanted('java-runtime', [:]))
    def all = platforms.collectMany { platform, names ->
        def variant = select(module, wanted('java-runtime', ['org.gradle.native.operatingSystem': names[0],
                                                            'org.gradle.native.architecture': names[1]]))
        def found = natives(variant)
        if (natives(everywhere)) {
            assert found.every { it[2] == platform }
            assert found.empty == (name == 'starling-cuda' && platform.startsWith('macosx'))
        }
        assert variant.dependencies.findAll { !it.thirdPartyCompatibility } ==
                everywhere.dependencies.findAll { !it.thirdPartyCompatibility }
        found
    } as Set
    assert natives(everywhere) == all
    def api = select(module, wanted('java-api', [:]))
    assert api.name == 'apiElements' && natives(api).empty
}
// Both tools get the same libraries, in the same versions.
assert natives(select(modules['starling-tensor'], wanted('java-runtime', ['org.gradle.native.operatingSystem': 'windows',
        'org.gradle.native.architecture': 'x86-64']))) == mavenNatives
def ours = modules.subMap('starling-errors', 'starling-tensor', 'starling-autograd', 'starling-nn').values()
def libraries = ours.collectMany { select(it, wanted('java-runtime', [:])).dependencies }
        .findAll { !it.thirdPartyCompatibility }.collect { [it.group, it.module, null, it.version.requires] } as Set
def others = tree - mavenNatives - libraries
assert tree.containsAll(libraries)
// The pom of the natives of oneDNN brings the classes of OpenCL to both.
assert others.collect { it[1] } as Set == ['starling-nn', 'opencl'] as Set
true
