// Writes the Gradle module metadata (format 1.1) of a module whose pom says that it is published with them, and attaches
// them as an artifact. A consumer that names no platform gets the natives of all of them; one that sets Gradle's
// attributes of operating system and architecture gets those of that platform. They come from the effective pom.
import groovy.json.JsonOutput
import java.security.MessageDigest

if (!project.file.text.contains('published-with-gradle-metadata')) {
    return
}

def architectures = ['x86_64': 'x86-64', 'arm64': 'aarch64']
def systems = ['linux': 'linux', 'macosx': 'macos', 'windows': 'windows']
def platforms = ['linux-x86_64', 'linux-arm64', 'macosx-x86_64', 'macosx-arm64', 'windows-x86_64']

def jar = project.artifact.file
def digest = { String name -> HexFormat.of().formatHex(MessageDigest.getInstance(name).digest(jar.bytes)) }
def file = [name: jar.name, url: jar.name, size: jar.length(), sha512: digest('SHA-512'), sha256: digest('SHA-256'),
            sha1: digest('SHA-1'), md5: digest('MD5')]

// The effective pom has the classifier of the platform that builds; the pom as it is written says which are natives.
def natives = project.originalModel.dependencies.findAll { it.classifier ==~ /\$\{(native|cuda)\.platform}/ }
        .collectEntries { ["$it.groupId:$it.artifactId".toString(), it.classifier] }

def dependency = { d, String classifier ->
    def entry = [group: d.groupId, module: d.artifactId, version: [requires: d.version]]
    if (d.exclusions) {
        entry.excludes = d.exclusions.collect { [group: it.groupId, module: it.artifactId] }
    }
    if (classifier) {
        entry.thirdPartyCompatibility = [artifactSelector: [name: d.artifactId, type: 'jar', extension: 'jar',
                                                            classifier: classifier]]
    }
    entry
}

// There is no CUDA on a Mac.
def hasNatives = { d, String platform ->
    natives["$d.groupId:$d.artifactId".toString()] != '${cuda.platform}' || !platform.startsWith('macosx')
}

def dependencies = { List<String> scopes, List<String> wanted ->
    project.dependencies.findAll { it.scope in scopes && !it.optional }.collectMany { d ->
        d.classifier ? wanted.findAll { hasNatives(d, it) }.collect { dependency(d, it) } : [dependency(d, null)]
    }
}

def variant = { String name, String usage, Map<String, ?> more, List<String> scopes, List<String> wanted ->
    [name: name, attributes: ['org.gradle.category': 'library', 'org.gradle.dependency.bundling': 'external',
                              'org.gradle.jvm.environment': 'standard-jvm',
                              'org.gradle.jvm.version': project.properties['maven.compiler.release'] as int,
                              'org.gradle.libraryelements': 'jar', 'org.gradle.usage': usage] + more,
     dependencies: dependencies(scopes, wanted), files: [file]]
}

def variants = [variant('apiElements', 'java-api', [:], ['compile'], []),
                variant('runtimeElements', 'java-runtime', [:], ['compile', 'runtime'], platforms)]
if (natives) {
    platforms.each { platform ->
        def (system, architecture) = platform.split('-')
        variants << variant("${platform}RuntimeElements".toString(), 'java-runtime',
                ['org.gradle.native.operatingSystem': systems[system],
                 'org.gradle.native.architecture': architectures[architecture]], ['compile', 'runtime'], [platform])
    }
}
def module = [formatVersion: '1.1', component: [group: project.groupId, module: project.artifactId,
                                                version: project.version], variants: variants]
def target = new File(project.build.directory, "${project.build.finalName}.module")
target.setText(JsonOutput.prettyPrint(JsonOutput.toJson(module)) + '\n', 'UTF-8')
session.lookup('org.apache.maven.project.MavenProjectHelper').attachArtifact(project, 'module', target)
