// All natives are those of the platform that the property names.
def natives = (new File(basedir, 'build.log').text =~ /org\.bytedeco:(\w+):jar:(\w+-\w+):/).collect { [it[1], it[2]] } as Set
assert natives == [['javacpp', 'windows-x86_64'], ['dnnl', 'windows-x86_64'], ['opencl', 'windows-x86_64']] as Set
true
