module kardinal.test/gitea

go 1.26.0

require code.gitea.io/gitea v1.26.0
