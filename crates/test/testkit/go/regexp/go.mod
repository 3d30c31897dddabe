module kardinal.test/regexp

go 1.25
